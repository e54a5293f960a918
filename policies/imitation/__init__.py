"""Behavior cloning, DAgger, and the teachers that it learns from."""
