"""Tasks of many drones together."""
