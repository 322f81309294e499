"""One handler per method of the protocol."""
