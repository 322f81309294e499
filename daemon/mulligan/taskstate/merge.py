"""Merging a partial state into the one that is stored, so that what is not named stays. Pure."""

from __future__ import annotations

from typing import Any


def merge(old: Any, new: Any) -> Any:
    """What `new` makes of `old`; neither is changed.

    Objects merge key by key and a key that is null is deleted. Lists of which every element is an object with an `id`
    merge by it: known ones where they stand, others behind them, in their order. Every other list, and an empty one,
    takes the old one's place as it is, as does anything else.
    """
    if isinstance(new, dict):
        return _objects(old if isinstance(old, dict) else {}, new)
    if isinstance(new, list) and _has_ids(new):
        return _by_id(old if isinstance(old, list) and _has_ids(old) else [], new)
    return new


def _objects(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for key, value in new.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge(merged.get(key), value)
    return merged


def _by_id(old: list[Any], new: list[Any]) -> list[Any]:
    merged = {_id(item): item for item in old}
    for item in new:
        merged[_id(item)] = merge(merged.get(_id(item)), item)
    return list(merged.values())


def _has_ids(items: list[Any]) -> bool:
    return bool(items) and all(isinstance(item, dict) and isinstance(item.get("id"), str | int) for item in items)


def _id(item: dict[str, Any]) -> tuple[type, object]:
    # in JSON 1, "1" and true are three things
    return type(item["id"]), item["id"]
