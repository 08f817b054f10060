"""Policies: thin command lines over Isaac Lab's rsl_rl entry points, run manifests, exports, clips and transfer tables."""
