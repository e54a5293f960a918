"""Sensors: cameras, ray casting, point clouds and height scans."""
