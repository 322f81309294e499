"""Checkpoints as a tree, by the parents that they name; for the daemon, and for the client, which gets a list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def nest(checkpoints: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The roots with their children, by ordinal; a checkpoint whose parent is not among them is a root.

    Made without recursion: a linear history of thousands is as deep as it is long.
    """
    nodes: dict[str, dict[str, Any]] = {made["id"]: {"checkpoint": made, "children": []} for made in checkpoints}
    roots: list[dict[str, Any]] = []
    for made in sorted(checkpoints, key=lambda made: int(made["ordinal"])):
        parent = nodes.get(made["parent_checkpoint_id"] or "")
        (roots if parent is None else parent["children"]).append(nodes[made["id"]])
    return roots


def nested_fields(checkpoints: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The tree as a timeline has it."""
    roots = nest(checkpoints)
    return {"root_node": roots[0] if roots else None, "roots": roots}
