"""Jointed robots: their model with identifiable drives, their parameters, and logs simulated again by MuJoCo."""
