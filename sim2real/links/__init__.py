"""Links: from the runtime to a vehicle, one file for each protocol."""
