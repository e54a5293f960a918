"""Rollouts, replay, returns and normalisers."""
