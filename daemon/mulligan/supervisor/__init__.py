"""The daemon process: start and stop, workers, schedule, signals."""
