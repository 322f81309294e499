"""Watching a tree: observers behind one interface, ignore rules, scans."""
