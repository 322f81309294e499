"""One project: its worker thread, its checkpoints, how they are named, and the registry of all projects."""
