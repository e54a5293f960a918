"""Hierarchies: skills, and high levels that decide which of them acts, and how."""
