"""Restoring: a pure plan, its application by exchange, recovery after a crash."""
