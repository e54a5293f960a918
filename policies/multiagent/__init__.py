"""Teams and opponents."""
