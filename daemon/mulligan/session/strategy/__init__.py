"""The four strategies: when a session's events are worth a checkpoint."""
