"""The store: one append-only log of segments, the catalogue folded from it, the state database."""
