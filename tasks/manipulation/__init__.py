"""Manipulation: what arms and hands do on a table."""
