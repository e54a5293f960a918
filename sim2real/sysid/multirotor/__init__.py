"""Multirotors: their parameters, and flights simulated again by the compiled equations of the rotor engine."""
