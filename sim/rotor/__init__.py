"""The `rotor` engine: a compiled batch of worlds of multirotors, balls and static shapes."""
