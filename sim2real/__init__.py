"""From simulation to hardware: the contract of a policy, and the bundle that carries it (`export/`)."""
