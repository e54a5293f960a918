"""Robots of the user's own, read from URDF and MJCF files, checked, and made into what tasks need to know."""
