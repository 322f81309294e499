"""Writes timelines as opcode's checkpoint manager writes them, byte for byte in its layout, with the faults it has.

Kept from it: files are read as UTF-8 text and stored empty otherwise, with the size that they have on disk; all files
are tracked when a manager begins, later only those that changed; a deletion is noticed only after a shell command;
references are named by the path with / and \\ as _; cleanup leaves the timeline as it was; a checkpoint's figures add
up every line's usage and take the first prompt for the last. A file that is made again with the bytes that it had
before a deletion that was noticed is never noticed itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import zstandard

NOON = datetime(2025, 9, 1, 12, tzinfo=UTC)


def frame(data: bytes) -> bytes:
    """A zstd frame as a stream encoder makes it: without the size of what is in it."""
    compressor = zstandard.ZstdCompressor(level=3).compressobj()
    return compressor.compress(data) + compressor.flush()


def pretty(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


class Opcode:
    """One session's checkpoint manager; `restart` is what happens when the program is started anew."""

    def __init__(self, claude_dir: Path, project: Path, slug: str, session: str = "") -> None:
        self.project, self.session = project, session or str(uuid.uuid4())
        self.project_id = slug
        self.directory = claude_dir / "projects" / slug / ".timelines" / self.session
        (self.directory / "checkpoints").mkdir(parents=True)
        (self.directory / "files").mkdir()
        self.messages: list[str] = []
        self.tracked: dict[str, tuple[str, bool]] = {}
        self.clock = NOON
        self._save(
            {
                "sessionId": self.session, "rootNode": None, "currentCheckpointId": None,
                "autoCheckpointEnabled": False, "checkpointStrategy": "smart", "totalCheckpoints": 0,
            }
        )  # fmt: skip

    @property
    def timeline(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.directory / "timeline.json").read_text())
        return found

    def _save(self, timeline: dict[str, Any]) -> None:
        (self.directory / "timeline.json").write_text(pretty(timeline))

    def restart(self) -> None:
        self.tracked, self.messages = {}, []

    def say(self, *lines: dict[str, Any]) -> None:
        """Messages of the agent's, as its transcript has them; a shell command marks every tracked file."""
        for line in lines:
            self.messages.append(json.dumps(line))
            for block in line.get("message", {}).get("content", []):
                if isinstance(block, dict) and block.get("name") == "Bash":
                    self.tracked = {path: (known, True) for path, (known, _) in self.tracked.items()}

    def track(self, path: str) -> None:
        """A file is looked at: by a tool's path, which may be absolute, or by the walk of the project."""
        full = self.project / path
        digest = hashlib.sha256(_text(full)).hexdigest() if full.exists() else ""
        known, modified = self.tracked.get(path, ("", True))
        self.tracked[path] = (digest, modified or known != digest)

    def checkpoint(self, description: str | None = None, parent: str | None = None) -> str:
        """Take one; its id."""
        for above, names, files in os.walk(self.project):
            names[:] = [name for name in names if not name.startswith(".")]
            for name in files:
                self.track(str((Path(above) / name).relative_to(self.project)))
        made, timeline = str(uuid.uuid4()), self.timeline
        snapshots = [self._snapshot(path) for path, (_, modified) in self.tracked.items() if modified]
        self.clock += timedelta(minutes=1)
        checkpoint = {
            "id": made, "sessionId": self.session, "projectId": self.project_id,
            "messageIndex": max(0, len(self.messages) - 1), "timestamp": self.clock.isoformat().replace("+00:00", "Z"),
            "description": description, "parentCheckpointId": parent or timeline["currentCheckpointId"],
            "metadata": {**self._figures(), "fileChanges": len(snapshots), "snapshotSize": 1},
        }  # fmt: skip
        place = self.directory / "checkpoints" / made
        place.mkdir()
        (place / "metadata.json").write_text(pretty(checkpoint))
        (place / "messages.jsonl").write_bytes(frame("\n".join(self.messages).encode()))
        for snapshot in snapshots:
            self._store(made, *snapshot)
        node = {"checkpoint": checkpoint, "children": [], "fileSnapshotIds": [each["hash"] for each, _ in snapshots]}
        if timeline["rootNode"] is None:
            timeline["rootNode"] = node
        elif above_node := _find(timeline["rootNode"], checkpoint["parentCheckpointId"]):
            above_node["children"].append(node)
        timeline["currentCheckpointId"] = made
        timeline["totalCheckpoints"] += 1
        self._save(timeline)
        self.tracked = {path: (known, False) for path, (known, _) in self.tracked.items()}
        return made

    def restore(self, made: str) -> None:
        """Go back to one: what it does not name itself is deleted, and only what it names is known from then on."""
        refs = [json.loads(path.read_text()) for path in (self.directory / "files/refs" / made).glob("*.json")]
        assert not any(ref["is_deleted"] for ref in refs), "opcode fails to load such a checkpoint"
        there = {ref["path"]: ref for ref in refs}
        for path in [path for path in self.project.rglob("*") if path.is_file()]:
            if str(path.relative_to(self.project)) not in there:
                path.unlink()
        for name, ref in there.items():
            (self.project / name).parent.mkdir(parents=True, exist_ok=True)
            packed = (self.directory / "files/content_pool" / ref["hash"]).read_bytes()
            (self.project / name).write_bytes(zstandard.ZstdDecompressor().decompressobj().decompress(packed))
            os.chmod(self.project / name, stat.S_IMODE(ref["permissions"]))
        self.tracked = {name: (ref["hash"], False) for name, ref in there.items()}

    def _snapshot(self, path: str) -> tuple[dict[str, Any], bytes]:
        full = self.project / path
        if not full.exists():
            return {"path": path, "hash": "", "is_deleted": True, "permissions": None, "size": 0}, b""
        data, status = _text(full), full.stat()
        return {
            "path": path, "hash": hashlib.sha256(data).hexdigest(), "is_deleted": False,
            "permissions": stat.S_IFREG | stat.S_IMODE(status.st_mode), "size": status.st_size,
        }, data  # fmt: skip

    def _store(self, made: str, ref: dict[str, Any], data: bytes) -> None:
        pool = self.directory / "files" / "content_pool"
        refs = self.directory / "files" / "refs" / made
        pool.mkdir(exist_ok=True)
        if ref["hash"] and not (pool / ref["hash"]).exists():  # of a deletion the pool's own name is "" there
            (pool / ref["hash"]).write_bytes(frame(data))
        refs.mkdir(parents=True, exist_ok=True)
        name = ref["path"].replace("/", "_").replace("\\", "_")
        (refs / f"{name}.json").write_text(pretty(ref))

    def _figures(self) -> dict[str, Any]:
        prompt, model, total = "", "unknown", 0
        for text in reversed(self.messages):
            message = json.loads(text).get("message", {})
            content = message.get("content")
            if json.loads(text).get("type") == "user" and isinstance(content, list):
                prompt = next((block["text"] for block in content if block.get("type") == "text"), prompt)
            model = message.get("model", model)
            total += sum(value for value in message.get("usage", {}).values() if isinstance(value, int))
        return {"totalTokens": total, "modelUsed": model, "userPrompt": prompt}

    def cleanup(self, keep: int) -> list[str]:
        """Remove the oldest; the timeline goes on naming them. Their ids."""
        nodes = sorted(_all(self.timeline["rootNode"]), key=lambda node: str(node["checkpoint"]["timestamp"]))
        gone = [str(node["checkpoint"]["id"]) for node in nodes[: max(0, len(nodes) - keep)]]
        for name in gone:
            shutil.rmtree(self.directory / "checkpoints" / name, ignore_errors=True)
            shutil.rmtree(self.directory / "files/refs" / name, ignore_errors=True)
        used = {json.loads(path.read_text())["hash"] for path in (self.directory / "files/refs").rglob("*.json")}
        for path in (self.directory / "files/content_pool").iterdir():
            if path.name not in used:
                path.unlink()
        return gone

    def pool(self, data: bytes) -> Path:
        """Where a content lies."""
        return self.directory / "files/content_pool" / hashlib.sha256(data).hexdigest()


def _text(path: Path) -> bytes:
    data = path.read_bytes()
    try:
        data.decode()
    except UnicodeDecodeError:
        return b""
    return data


def _find(node: dict[str, Any], name: str | None) -> dict[str, Any] | None:
    return next((one for one in _all(node) if one["checkpoint"]["id"] == name), None)


def _all(node: dict[str, Any] | None) -> list[dict[str, Any]]:
    return [] if node is None else [node, *(below for child in node["children"] for below in _all(child))]
