"""The journal: rows, cuts, capture, diff."""
