"""A conversation in a protected project, and what is made of it by forks and restores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.daemon import DaemonFixture
from support.live_transcript import LiveConversation, await_checkpoint, checkpoints, settle, slug
from support.trees import put


class Told:
    """Two turns, each of which wrote a file; `first` and `second` are the checkpoints behind that, `bytes` the file."""

    def __init__(self, daemon: DaemonFixture, project: Path, **options: Any) -> None:
        self.daemon, self.project = daemon, project
        put(project, b"README", b"a project\n")
        daemon.add(project)
        self.talk = LiveConversation(daemon.claude_dir, project, **options)
        for number, name in enumerate(("one", "two"), 1):
            self.talk.prompt(f"write {name}")
            self.talk.put_call(project / name, name.encode() + b"\n")
            self.talk.end_turn()
            await_checkpoint(daemon, project, "tool_use", number)
        settle(daemon, project, 8)
        self.bytes = self.talk.path.read_bytes()
        self.first, self.second = checkpoints(daemon, project, "tool_use")

    def fork(self, position: str, /, **options: Any) -> dict[str, Any]:
        """`checkpoint.fork` of a position of the project."""
        return self.daemon.call("checkpoint.fork", project=self.project, id=position, **options)

    def client(self, *words: str) -> tuple[int, str, str]:
        """(exit status, stdout, stderr) of the client in the project."""
        done = self.daemon.client(*words, cwd=self.project)
        return done.returncode, done.stdout, done.stderr

    def copy(self, answer: dict[str, Any]) -> list[dict[str, Any]]:
        """The lines of the transcript that an answer's `resume` leads to."""
        place = self.daemon.claude_dir / "projects" / slug(Path(answer["resume"]["directory"]))
        data = (place / f"{answer['resume']['session_id']}.jsonl").read_bytes()
        assert data.endswith(b"}\n")
        return [json.loads(line) for line in data.splitlines()]

    def copies(self) -> list[list[dict[str, Any]]]:
        """The lines of each transcript in the project's own directory but the original."""
        others = sorted(path for path in self.talk.path.parent.iterdir() if path != self.talk.path)
        return [[json.loads(line) for line in path.read_bytes().splitlines()] for path in others]

    def unchanged(self) -> bool:
        """Whether the original is as it was, byte for byte."""
        return self.talk.path.read_bytes() == self.bytes


def said(lines: list[dict[str, Any]]) -> list[str]:
    """The words of the prompts among some lines."""
    contents = [line["message"]["content"] for line in lines if line["type"] == "user"]
    return [content for content in contents if isinstance(content, str)]
