"""Behaviour cloning and DAgger."""
