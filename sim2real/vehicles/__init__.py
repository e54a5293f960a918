"""Vehicles: simulated robots that are served over the protocols of real ones, so that any ground station can drive them."""
