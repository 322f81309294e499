"""What a person sees: aligned, narrow-terminal-safe, foreign text made harmless."""
