"""Checkpoints as a tree, by the parents that they name; for the daemon, and for the client, which gets a list."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
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


def nested_texts(checkpoints: Sequence[dict[str, Any]]) -> dict[str, str]:
    """The same fields as JSON in ASCII, many times faster: a checkpoint is written once, and no level is a call."""
    encode = json.JSONEncoder(separators=(",", ":")).encode
    roots = ["".join(_pieces(root, encode)) for root in nest(checkpoints)]
    return {"root_node": roots[0] if roots else "null", "roots": f"[{','.join(roots)}]"}


def _pieces(root: dict[str, Any], encode: Callable[[Any], str]) -> Iterator[str]:
    waiting: list[dict[str, Any] | str] = [root]  # what is to come, the last first
    while waiting:
        node = waiting.pop()
        if isinstance(node, str):
            yield node
            continue
        yield f'{{"checkpoint":{encode(node["checkpoint"])},"children":['
        waiting.append("]}")
        for place, child in reversed(list(enumerate(node["children"]))):
            waiting += [child, ","] if place else [child]
