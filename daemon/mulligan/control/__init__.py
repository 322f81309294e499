"""The control protocol: framing, server, and one handler per command."""
