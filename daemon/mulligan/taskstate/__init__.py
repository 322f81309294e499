"""Task state: what a session is doing, what is done, next and blocked; beside its files and joined to them."""
