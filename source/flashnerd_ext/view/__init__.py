"""Looking at learned physics: viewers, recordings, and the simulator's robot as a ghost beside the learned one."""
