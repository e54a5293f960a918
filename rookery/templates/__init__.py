"""Templates of `rookery new`: text with ``$name`` fields, read as package data."""
