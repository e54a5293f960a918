"""Readers of logs: each makes a Table of one kind of file."""
