"""Rollouts, replay, returns and normalizers."""
