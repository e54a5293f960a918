"""The transfer gate: stresses a policy as hardware would, and says whether it stands what a profile asks for."""
