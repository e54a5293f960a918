"""Domain randomisation: parameters, ranges and visual randomisation."""
