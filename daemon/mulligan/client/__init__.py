"""The client command: standard library only."""
