"""Policies: rsl_rl command lines over Isaac Lab's, run manifests, exports, clips and transfer tables."""
