"""Renderers and video."""
