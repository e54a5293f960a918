"""Runner, checkpoints, logs and evaluation."""
