"""The objects of the protocol, made from the journal's: exact names, times as text, paths made safe for JSON."""

from __future__ import annotations

import base64
import os
from typing import Any

import msgspec

from mulligan.clock import to_rfc3339
from mulligan.model import Checkpoint, Entry, Flag, Kind
from mulligan.project.conversation import Conversation
from mulligan.session.state import State, at_work
from mulligan.session_ids import MANUAL_SESSION


def show_path(path: bytes) -> str:
    """A path as text; bytes that are not UTF-8 become replacement characters."""
    return path.decode("utf-8", "replace")


def path_fields(path: bytes, name: str = "path") -> dict[str, Any]:
    """`path`, and `path_b64` too if the path is not UTF-8."""
    text = show_path(path)
    fields: dict[str, Any] = {name: text}
    if text.encode() != path:
        fields[f"{name}_b64"] = base64.b64encode(path).decode()
    return fields


def checkpoint_object(made: Checkpoint, project_path: bytes) -> dict[str, Any]:
    """The `checkpoint` object."""
    metadata = made.metadata
    return {
        "id": made.id,
        "ordinal": made.ordinal,
        "session_id": made.session or MANUAL_SESSION,
        "project_id": str(made.project),
        "project_path": os.fsencode(project_path).decode("utf-8", "replace"),
        "parent_checkpoint_id": made.parent or None,
        "timestamp": to_rfc3339(made.timestamp),
        "description": made.description,
        "trigger": made.trigger,
        "placement": made.placement,
        "strategy": made.strategy,
        "complete": made.complete,
        "incomplete_paths": [{**path_fields(path), "reason": reason} for path, reason in made.incomplete],
        "special": [show_path(path) for path in made.special],
        "pinned": made.pinned,
        "tree": made.tree,
        "message_uuid": made.message_uuid or None,
        "message_index": made.message_index,
        "tool": None
        if made.tool is None
        else {"name": made.tool.name, "id": made.tool.id, "is_error": made.tool.is_error},
        "git": None if made.git is None else {"head": made.git.head, "branch": made.git.branch},
        "metadata": {field: getattr(metadata, field) for field in metadata.__struct_fields__},
    }


def kind_name(kind: Kind) -> str:
    """What kind of entry it is, in a word."""
    return {Kind.DIR: "directory", Kind.LINK: "symlink"}.get(kind, kind.name.lower())


def file_object(path: bytes, entry: Entry, flags: int = 0) -> dict[str, Any]:
    """One file of `checkpoint.show`; `permissions` are the mode's twelve bits.

    `torn`: the bytes may mix versions; `unproven`: they stood there like this, perhaps half way through a write.
    """
    return {
        **path_fields(path, "file_path"),
        "hash": entry.hash.hex() if entry.kind == Kind.FILE else None,
        "is_deleted": entry.kind == Kind.ABSENT,
        "permissions": entry.mode if entry.kind in (Kind.FILE, Kind.DIR) else None,
        "kind": kind_name(entry.kind),
        "size": entry.size,
        **({"target": show_path(entry.target)} if entry.kind == Kind.LINK else {}),
        **({"reason": entry.reason} if entry.reason else {}),
        **({"torn": True} if flags & Flag.TORN else {}),
        **({"unproven": True} if flags & Flag.UNPROVEN else {}),
    }


def resume_object(conversation: Conversation) -> dict[str, Any] | None:
    """The `resume` object: how a copied conversation goes on; None if there is nothing that could."""
    if not conversation.there:
        return None
    session, command = conversation.session, conversation.command
    return {"session_id": session, "command": command, "directory": conversation.directory}


def conversation_object(conversation: Conversation) -> dict[str, Any]:
    """The `conversation` object: whose it was, how many messages a copy has, and why there is none."""
    return {
        "session_id": conversation.source or None,
        "messages": conversation.copy.messages,
        "refused": conversation.refused or None,
    }


def is_at_work(state: bytes, silence: int) -> bool:
    """Whether a session's agent is in the middle of a turn, by the stored state of its machine and the time since."""
    return bool(state) and at_work(msgspec.msgpack.decode(state, type=State), silence)
