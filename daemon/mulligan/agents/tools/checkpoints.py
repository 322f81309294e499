"""checkpoint_create, checkpoint_list, checkpoint_show, checkpoint_diff."""

from __future__ import annotations

from typing import Any

from mulligan.agents.seat import Seat
from mulligan.agents.tool import (
    ANSWER_CHARACTERS,
    PROJECT_POSITION,
    JsonObject,
    Tool,
    cut,
    flag,
    offset,
    page,
    paging,
    shortened,
    text,
    texts,
    without_nothing,
)
from mulligan.errors import UsageError
from mulligan.session_ids import MANUAL_SESSION

_LISTED, _FILES = 20, 50
_KINDS = ("modified", "added", "deleted")


def short_checkpoint(made: JsonObject) -> JsonObject:
    """What an agent needs of a checkpoint."""
    about = made.get("metadata") or {}
    return {
        **{key: made[key] for key in ("id", "ordinal", "timestamp", "trigger")},
        **without_nothing({
            "session_id": made["session_id"],
            "description": cut(made["description"], 120),
            "tool": (made.get("tool") or {}).get("name"),
            "prompt": cut(" ".join(str(about.get("user_prompt", "")).split()), 120),
            "changed": {kind: about[kind] for kind in _KINDS if about.get(kind)},
            "pinned": made["pinned"],
            "incomplete": shortened(made["incomplete_paths"], 5),
            "damaged_files": made.get("damaged_files"),
        }),
    }  # fmt: skip


def _create(seat: Seat, arguments: JsonObject) -> JsonObject:
    made = seat.call(
        "checkpoint.create",
        project=seat.project,
        session=seat.known_session() or None,
        description=arguments.get("description"),
        pin=arguments.get("pin"),
    )
    return {"checkpoint": short_checkpoint(made["checkpoint"]), "warnings": shortened(made["warnings"])}


def _list(seat: Seat, arguments: JsonObject) -> JsonObject:
    cursor, limit = arguments.get("cursor"), int(arguments.get("limit", _LISTED))
    mine = seat.session() if arguments.get("mine") else None
    known = mine if mine != MANUAL_SESSION else None  # that one is no agent's, and is asked for by no name
    found = seat.call(
        "checkpoint.list",
        project=seat.project,
        session=known,
        limit=limit + 1 if not cursor and mine == known else None,
    )
    made = [short_checkpoint(one) for one in found["checkpoints"] if mine in (None, one["session_id"])]
    start = 0
    if cursor:
        start = next((number for number, one in enumerate(made, 1) if one["id"] == cursor), 0)
        if not start:
            raise UsageError(f'"{cut(cursor, 80)}" is no cursor', hint="give next_cursor of the answer before, or none")
    shown = page("checkpoints", made, arguments, _LISTED, start)
    more = shown["next_cursor"] is not None
    return {
        "current_checkpoint_id": found["current_checkpoint_id"],
        "checkpoints": shown["checkpoints"],
        "next_cursor": shown["checkpoints"][-1]["id"] if more else None,
    }


def changed_files(found: JsonObject) -> list[JsonObject]:
    """Path, kind and counts of the files in which two trees differ."""
    return [
        {
            "path": file["path"],
            "change": kind,
            **without_nothing({
                "renamed_from": file["renamed_from"],
                "additions": file["additions"],
                "deletions": file["deletions"],
                "binary": file["binary"],
                "new_mode": file["new_mode"],
            }),
        }
        for kind in _KINDS
        for file in found[f"{kind}_files"]
    ]  # fmt: skip


def _show(seat: Seat, arguments: JsonObject) -> JsonObject:
    found = seat.call("checkpoint.show", project=seat.project, id=arguments["id"])
    if arguments.get("tree"):
        items: list[Any] = [
            {"path": file["file_path"], **without_nothing({"kind": file["kind"], "size": file["size"]})}
            for file in found["files"]
        ]
    else:
        items = changed_files(found["changes"]) if found["changes"] else []
    return {
        "checkpoint": short_checkpoint(found["checkpoint"]),
        "files_in_tree": sum(file["kind"] == "file" for file in found["files"]),
        **page("tree" if arguments.get("tree") else "changes", items, arguments, _FILES),
        "warnings": shortened(found["warnings"]),
    }


def _diff(seat: Seat, arguments: JsonObject) -> JsonObject:
    old, new = arguments.get("from"), arguments.get("to")
    found = seat.call(
        "checkpoint.diff",
        project=seat.project,
        from_=old,
        to=new,
        session=seat.session_for(old, new),
        paths=arguments.get("paths"),
        ignore_whitespace=arguments.get("ignore_whitespace"),
    )
    files = changed_files(found)
    patch = "".join(str(file["diff_content"]) for kind in _KINDS for file in found[f"{kind}_files"])
    first = offset(arguments)
    last = min(len(patch), first + int(arguments.get("limit", ANSWER_CHARACTERS // 2)))
    return {
        "from_checkpoint_id": found["from_checkpoint_id"],
        "to_checkpoint_id": found["to_checkpoint_id"],
        "files": shortened(files, _FILES) if not first else [],
        "files_total": len(files),
        "patch": "" if arguments.get("stat") else patch[first:last],
        "next_cursor": str(last) if last < len(patch) and not arguments.get("stat") else None,
    }


TOOLS = (
    Tool(
        "checkpoint_create",
        "Take a checkpoint of all files of the project now, for instance before a risky change. It costs next to"
        " nothing; checkpoints are also taken automatically.",
        _create,
        {
            "description": text("what this state is"),
            "pin": flag("keep it for good"),
        },
        read_only=False,
    ),
    Tool(
        "checkpoint_list",
        "The project's checkpoints, newest first: number, id, time, what led to it, how many files changed.",
        _list,
        {**paging("checkpoints", _LISTED, 200), "mine": flag("only those of this session")},
    ),
    Tool(
        "checkpoint_show",
        "One checkpoint and the files that it changed.",
        _show,
        {
            "id": text(PROJECT_POSITION.partition(";")[0]),
            "tree": flag("list every entry of its tree instead of the changes"),
            **paging("files", _FILES, 500),
        },
        required=("id",),
    ),
    Tool(
        "checkpoint_diff",
        "What differs between two positions as a unified diff; by default between where the project stands and the"
        " files as they are now.",
        _diff,
        {
            "from": text(f"{PROJECT_POSITION}; default: the current checkpoint"),
            "to": text("another position; default: the files as they are now"),
            "paths": texts("only these files, directories or patterns (src/*.py)"),
            "stat": flag("only the list of files with counts of lines, no patch"),
            "ignore_whitespace": flag("ignore white space, as git diff -w"),
            **paging("characters of the patch", ANSWER_CHARACTERS // 2, 2 * ANSWER_CHARACTERS),
        },
    ),
)
