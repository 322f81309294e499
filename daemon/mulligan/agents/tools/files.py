"""file_history, blame, search, rescue_list: questions about the project's past."""

from __future__ import annotations

from itertools import groupby

from mulligan.agents.seat import Seat
from mulligan.agents.tool import (
    PROJECT_POSITION,
    TEXT_CHARACTERS,
    JsonObject,
    Tool,
    cut,
    flag,
    offset,
    page,
    paging,
    text,
    texts,
    without_nothing,
)

_VERSIONS, _LINES, _PLACES, _LOSSES = 20, 100, 20, 50
_DEEPEST = 1000


def author(found: JsonObject) -> JsonObject:
    """Who made something: session, prompt, tool, and how sure that is."""
    prompt = found.get("prompt")
    about = {
        "session_id": found.get("session_id"),
        "prompt_number": found.get("prompt_number"),
        "prompt": prompt and cut(" ".join(str(prompt).split()), 120),
        "tool": found.get("tool"),
        "grade": found.get("grade"),
    }
    return without_nothing(about)


def _history(seat: Seat, arguments: JsonObject) -> JsonObject:
    found = seat.call("file.history", project=seat.project, paths=[arguments["path"]])
    versions = [
        {
            "id": one["id"],
            **without_nothing({
                "ordinal": one["ordinal"],
                "path": one["path"] if one["path"] != found["path"] else None,
                "timestamp": one["timestamp"],
                "kind": one["kind"],
                "size": one["size"],
                "reason": one.get("reason"),
                "by": author(one),
            }),
        }
        for one in found["versions"]
    ]  # fmt: skip
    return {"path": found["path"], **page("versions", versions, arguments, _VERSIONS)}


def _blame(seat: Seat, arguments: JsonObject) -> JsonObject:
    name = arguments.get("id")
    found = seat.call(
        "file.blame", project=seat.project, paths=[arguments["path"]], id=name, session=seat.session_for(name)
    )
    first = offset(arguments)
    lines = found["lines"][first : first + int(arguments.get("limit", _LINES))]
    runs = []
    for (checkpoint, by), run in groupby(lines, key=lambda line: (line["checkpoint_id"], author(line))):
        group = list(run)
        runs.append({
            "lines": str(group[0]["line"]) if len(group) == 1 else f"{group[0]['line']}-{group[-1]['line']}",
            **without_nothing({"checkpoint_id": checkpoint, "ordinal": group[0]["ordinal"], "by": by}),
            "text": "\n".join(cut(line["text"]) for line in group),
        })  # fmt: skip
    shown = page("runs", runs, {"limit": len(runs) or 1}, _LINES, 0)
    last = int(shown["runs"][-1]["lines"].rpartition("-")[2]) if runs else first
    total = len(found["lines"])
    return {
        "path": found["path"],
        "runs": shown["runs"],
        "total_lines": total,
        "next_cursor": str(last) if last < total else None,
    }


def _search(seat: Seat, arguments: JsonObject) -> JsonObject:
    first, limit = offset(arguments), int(arguments.get("limit", _PLACES))
    found = seat.call(
        "file.search",
        project=seat.project,
        text=arguments["text"],
        regex=arguments.get("regex"),
        paths=arguments.get("paths"),
        since=arguments.get("since"),
        limit=min(first + limit + 1, _DEEPEST),
    )
    places = [
        {
            "path": one["path"],
            "line_number": one["line_number"],
            "line": cut(one["line"]),
            **without_nothing({"appeared": _event(one["appeared"]), "vanished": _event(one["vanished"])}),
            "last": one["last"]["id"],
        }
        for one in found["matches"]
    ]
    prompts = [
        {**{key: one[key] for key in ("session_id", "prompt_number", "timestamp")}, "prompt": cut(one["prompt"])}
        for one in found["prompts"]
    ]
    shown = page("matches", places, arguments, _PLACES)
    del shown["total"]
    complete = bool(found["complete"] or found["cut"])  # what the limit cut off has a next page
    return {**shown, "prompts": prompts[:5] if not first else [], "complete": complete}


def _event(event: JsonObject | None) -> JsonObject | None:
    if not event:
        return None
    return without_nothing(
        {"timestamp": event["timestamp"], "checkpoint_id": event["checkpoint_id"], "by": author(event)}
    )


def _losses(seat: Seat, arguments: JsonObject) -> JsonObject:
    since = arguments.get("since", "1h")
    found = seat.call(
        "operation.rescue",
        project=seat.project,
        since=since,
        paths=arguments.get("paths"),
        all=arguments.get("all"),
        dry_run=True,
    )
    entries = [
        {
            "path": one["path"],
            "how": one["how"],
            "lost_at": one["lost_at"],
            "size": one["size"],
            **without_nothing({
                "newer": one["newer"],
                "moved_to": one["moved_to"],
                "by": one["call"] and {"tool": one["call"]["tool"], "command": cut(one["call"]["command"], 120)},
            }),
        }
        for one in found["entries"]
    ]  # fmt: skip
    return {
        "since": found["since"],
        **page("losses", entries, arguments, _LOSSES),
        "left_out": found["left_out"],
        "next_step": f"mulligan rescue --since {since} PATH brings one back" if entries else "nothing was lost",
    }


_PATH = text("a file, relative to the project's root or absolute")
TOOLS = (
    Tool(
        "file_history",
        "The versions of one file, newest first, over renames: when, how large, and which prompt and tool made each.",
        _history,
        {"path": _PATH, **paging("versions", _VERSIONS, 200)},
        required=("path",),
    ),
    Tool(
        "blame",
        "Line by line, which prompt and tool brought a file's lines; runs of lines of the same origin stand together.",
        _blame,
        {
            "path": _PATH,
            "id": text(f"{PROJECT_POSITION}; default: now"),
            **paging("lines", _LINES, 1000),
        },
        required=("path",),
    ),
    Tool(
        "search",
        "Where and when a text appeared in any version of any file, and when it vanished; prompts too.",
        _search,
        {
            "text": text("as it stands, letter for letter", minLength=1, maxLength=TEXT_CHARACTERS),
            "regex": flag("text is a regular expression (Python's)"),
            "paths": texts("only files that match one of these patterns (*.py)"),
            "since": text("only what appeared or vanished since then: an age (2h) or a time"),
            **paging("places", _PLACES, 200),
        },
        required=("text",),
    ),
    Tool(
        "rescue_list",
        "Files that vanished, were emptied, shrank or were replaced lately, and which call did it; nothing is changed.",
        _losses,
        {
            "since": text("an age (5m) or a time; default 1h"),
            "paths": texts("only these files, directories or patterns"),
            "all": flag("also what is no loss as a rule, such as leftovers of editors"),
            **paging("losses", _LOSSES, 500),
        },
    ),
)
