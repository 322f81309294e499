"""mulligan: a journal of a project's working tree, and every moment of it to go back to."""

__version__ = "1.0.0"
