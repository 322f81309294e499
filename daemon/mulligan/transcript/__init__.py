"""Claude Code's transcripts: where they are, how they are followed, what their lines mean."""
