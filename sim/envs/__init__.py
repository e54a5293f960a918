"""Vectorised environments: VecEnv, ConcatEnv and what they share."""
