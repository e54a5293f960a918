"""Volleyball with drones: nine tasks on one referee."""
