"""Reads opcode's timelines from where opcode keeps them; nothing there is changed.

Below a project's directory of transcripts: `.timelines/<session>/timeline.json`, `checkpoints/<id>/metadata.json` and
`messages.jsonl`, `files/refs/<id>/<name>.json`, `files/content_pool/<hash>`. Messages and contents are zstd frames.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec
import zstandard

from mulligan.clock import from_rfc3339
from mulligan.errors import NotFoundError
from mulligan.model import Metadata
from mulligan.project.opcode import Held, Node, Ref, is_id, judged
from mulligan.project.settings import STRATEGIES
from mulligan.transcript.events import Prompt, Usage
from mulligan.transcript.locate import read_head
from mulligan.transcript.parse import SYNTHETIC, parse_line

TIMELINES = ".timelines"
_MOST_JSON, _MOST_MESSAGES = 64 << 20, 1 << 30
_POOL = os.path.join("files", "content_pool")
_CHUNK = 64 * 1024
_HASH = frozenset("0123456789abcdef")


@dataclass(slots=True)
class Timeline:
    """One session's timeline: its checkpoints by their ids, where its files lie, and what could not be read."""

    directory: str
    session: str
    root: str = ""
    strategy: str = ""
    current: str = ""
    nodes: dict[str, Node] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def is_hash(text: object) -> bool:
    """Whether something is a SHA-256 as opcode writes it."""
    return isinstance(text, str) and len(text) == 64 and _HASH.issuperset(text)


def find(place: str) -> list[str]:
    """The directories of sessions' timelines at a place: one, or all of a `.timelines`. Raises NotFoundError."""
    for directory in (place, os.path.join(place, TIMELINES)):
        if os.path.isfile(os.path.join(directory, "timeline.json")) or _names(os.path.join(directory, "checkpoints")):
            return [directory]
        found = [os.path.join(directory, name) for name in _names(directory) if is_id(name)]
        if os.path.basename(directory) == TIMELINES and found:
            return [one for one in found if os.path.isdir(one)]
    raise NotFoundError(f"{place} holds no timeline of opcode's", hint=f"give a {TIMELINES} directory, or one in it")


def read(directory: str) -> Timeline:
    """Everything that a session's timeline says but for the contents of its files."""
    directory = os.path.abspath(directory)
    made = Timeline(directory, os.path.basename(directory))
    told = _json(os.path.join(directory, "timeline.json"))
    if isinstance(told, dict):
        strategy, current = told.get("checkpointStrategy"), told.get("currentCheckpointId")
        made.strategy = strategy if strategy in STRATEGIES else ""
        made.current = current if isinstance(current, str) and is_id(current) else ""
        _read_tree(made, told.get("rootNode"))
    else:
        made.faults.append("timeline.json cannot be read: the tree is made of what each checkpoint says itself")
    checkpoints = os.path.join(directory, "checkpoints")
    for name in filter(is_id, _names(checkpoints)):
        _read_checkpoint(made, name, os.path.join(checkpoints, name))
    _read_messages(made)
    if not made.root:
        slug_directory = os.path.dirname(os.path.dirname(directory))
        made.root = read_head(os.path.join(slug_directory, f"{made.session}.jsonl")).cwd
    return made


def _read_tree(made: Timeline, root: Any) -> None:
    """The checkpoints that the timeline names, ghosts until what they hold is found. No recursion: it may be deep."""
    left = [root]
    while left:
        told = left.pop()
        if not isinstance(told, dict):
            continue
        checkpoint, children, files = told.get("checkpoint"), told.get("children"), told.get("fileSnapshotIds")
        if isinstance(checkpoint, dict) and (node := _node(checkpoint)) is not None:
            node.ghost = True
            if isinstance(files, list):
                node.expected = max(node.expected, len(files))
                node.hashes = frozenset(filter(is_hash, files))
            made.nodes.setdefault(node.id, node)
        left += children if isinstance(children, list) else []


def _node(told: dict[str, Any]) -> Node | None:
    name, parent, text = told.get("id"), told.get("parentCheckpointId"), told.get("description")
    if not isinstance(name, str) or not is_id(name):
        return None
    metadata, index = told.get("metadata"), told.get("messageIndex")
    count = metadata.get("fileChanges") if isinstance(metadata, dict) else 0
    return Node(
        name,
        parent=parent if isinstance(parent, str) and is_id(parent) else "",
        timestamp=_moment(told.get("timestamp")),
        description=text if isinstance(text, str) else "",
        message_index=index if isinstance(index, int) else 0,
        expected=count if isinstance(count, int) else 0,
    )


def _moment(text: Any) -> int:
    try:
        return from_rfc3339(text)
    except (TypeError, ValueError, OverflowError):
        return 0


def _read_checkpoint(made: Timeline, name: str, directory: str) -> None:
    told = _json(os.path.join(directory, "metadata.json"))
    node = _node(told) if isinstance(told, dict) else None
    known = made.nodes.get(name)
    if node is None or node.id != name:
        if known is None:
            made.faults.append(f"checkpoint {name} is left out: its metadata.json cannot be read, and nothing names it")
            return
        node = known
        node.notes.append("its metadata.json cannot be read")
    elif known is not None:
        node.expected, node.hashes = max(node.expected, known.expected), known.hashes
    node.ghost = False
    refs = os.path.join(made.directory, "files", "refs", name)
    for file in _names(refs):
        ref = _ref(_json(os.path.join(refs, file)))
        if ref is not None:
            node.refs.append(ref)
        elif file.endswith(".json"):
            node.faults.append(f"the reference {file} cannot be read")
    made.nodes[name] = node


def _ref(told: Any) -> Ref | None:
    if not isinstance(told, dict) or not isinstance(told.get("path"), str) or not told["path"]:
        return None
    digest, mode, size = told.get("hash"), told.get("permissions"), told.get("size")
    return Ref(
        told["path"],
        digest if isinstance(digest, str) else "",
        told.get("is_deleted") is True,
        mode if isinstance(mode, int) else 0o644,
        size if isinstance(size, int) else 0,
    )


def _read_messages(made: Timeline) -> None:
    """Tokens, model, prompt and the project's root, told anew by the messages: opcode's own figures are not right.

    It adds up each line's usage, of which a message has several, and takes the first prompt for the last one.
    """
    for node in made.nodes.values():
        if node.ghost:
            continue
        path = os.path.join(made.directory, "checkpoints", node.id, "messages.jsonl")
        data, reason = _inflated(path, _MOST_MESSAGES)
        if data is None:
            node.notes.append(f"its messages.jsonl {reason}: no tokens, no prompt")
            continue
        usages: dict[str, Usage] = {}
        model = prompt = ""
        for line in data.split(b"\n"):
            for event in parse_line(line).events:
                made.root = made.root or event.cwd
                if isinstance(event, Usage):
                    usages[event.message] = event
                    model = event.model if event.model not in ("", SYNTHETIC) else model
                elif isinstance(event, Prompt):
                    prompt = event.text
        node.metadata = _metadata(list(usages.values()), model, prompt)


def _metadata(usages: list[Usage], model: str, prompt: str) -> Metadata:
    sums = Metadata(
        input_tokens=sum(usage.input for usage in usages),
        output_tokens=sum(usage.output for usage in usages),
        cache_creation_tokens=sum(usage.cache_creation for usage in usages),
        cache_read_tokens=sum(usage.cache_read for usage in usages),
        model_used=model,
        user_prompt=prompt,
    )
    total = sums.input_tokens + sums.output_tokens + sums.cache_creation_tokens + sums.cache_read_tokens
    return msgspec.structs.replace(sums, total_tokens=total)


def held(made: Timeline, ref: Ref, limit: int) -> tuple[Held, bytes]:
    """What a ref's content is worth, and its bytes; one that is larger than the limit is unknown.

    One that is gone or damaged may lie in another session's pool as well.
    """
    if not is_hash(ref.hash):
        return judged(ref, None, b"", "its reference bears no hash"), b""
    first = None
    for pool in [os.path.join(made.directory, _POOL), *_others(made)]:
        data, reason = _inflated(os.path.join(pool, ref.hash), limit)
        digest = hashlib.sha256(data).digest() if data is not None else b""
        found = judged(ref, data, digest, f"its content {reason}"), data or b""
        if digest.hex() == ref.hash:
            return found
        first = first or found
    assert first is not None
    return first


def _others(made: Timeline) -> list[str]:
    """The pools of the other sessions beside this one."""
    above = os.path.dirname(made.directory)
    if os.path.basename(above) != TIMELINES:
        return []
    return [os.path.join(above, name, _POOL) for name in _names(above) if is_id(name) and name != made.session]


def _names(directory: str) -> list[str]:
    try:
        return sorted(os.listdir(directory))
    except OSError:
        return []


def _bytes(path: str, limit: int) -> tuple[bytes | None, str]:
    """The bytes of a plain file, or None and why not."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, "is gone"
    except (OSError, ValueError):
        return None, "cannot be read"
    with open(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            return None, "is no plain file"
        try:
            data = file.read(limit + 1)
        except OSError:
            return None, "cannot be read"
    return (data, "") if len(data) <= limit else (None, "is too large")


def _json(path: str) -> Any:
    data, _ = _bytes(path, _MOST_JSON)
    try:
        return None if data is None else msgspec.json.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None


def _inflated(path: str, limit: int) -> tuple[bytes | None, str]:
    """The bytes in a zstd frame, or None and why not: a frame that was cut off is no content."""
    data, reason = _bytes(path, limit)
    if data is None:
        return None, reason
    try:
        return b"".join(_pieces(data, limit)), ""
    except zstandard.ZstdError:
        return None, "is damaged"
    except MemoryError:
        return None, "is too large"


def _pieces(data: bytes, limit: int) -> Iterator[bytes]:
    """What a whole frame holds. Raises ZstdError, and MemoryError for more than the limit."""
    inflater, size = zstandard.ZstdDecompressor().decompressobj(), 0
    for start in range(0, len(data), _CHUNK):
        piece = inflater.decompress(data[start : start + _CHUNK])
        size += len(piece)
        if size > limit:
            raise MemoryError
        yield piece
        if inflater.eof:
            break
    if not inflater.eof:
        raise zstandard.ZstdError("the frame is cut off")
