"""Manipulators: the Panda, the Allegro hand, how they are driven."""
