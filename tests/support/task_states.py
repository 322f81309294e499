"""A model of one session's task state, and random operations that are checked against any way to carry them out."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

State = dict[str, Any]
#: A method of the protocol without `state.`, and its parameters: the answer.
Carry = Callable[..., dict[str, Any]]


def merged(old: Any, new: Any) -> Any:
    """What a partial save makes of a state; written apart from the product's."""
    if isinstance(new, list) and new and all(isinstance(item, dict) and "id" in item for item in new):
        whole = isinstance(old, list) and old and all(isinstance(item, dict) and "id" in item for item in old)
        kept = copy.deepcopy(old) if whole else []
        for item in new:
            places = [n for n, known in enumerate(kept) if repr(known["id"]) == repr(item["id"])]
            if places:
                kept[places[0]] = merged(kept[places[0]], item)
            else:
                kept.append(merged({}, item))
        return kept
    if not isinstance(new, dict):
        return copy.deepcopy(new)
    result = copy.deepcopy(old) if isinstance(old, dict) else {}
    for key in new:
        if new[key] is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), new[key])
    return result


class SessionModel:
    """What a session's state and snapshots have to be; every text in them bears the session's own mark."""

    def __init__(self, session: str, mark: str, limit: int = 10) -> None:
        self.session, self.mark, self.limit = session, mark, limit
        self.state: State | None = None
        self.updated_at: str | None = None
        self.snapshots: list[tuple[str, str, State]] = []
        self.number = 0

    def text(self, rng: random.Random) -> str:
        """A text that no other session has."""
        self.number += 1
        return f"{self.mark}:{self.number}:{rng.randrange(1000)}"

    def changes(self, rng: random.Random) -> State:
        """A partial state."""
        found: State = {}
        for key in rng.sample(
            ["title", "goal", "steps", "next", "blockers", "notes", "status", "free"], rng.randint(0, 4)
        ):
            found[key] = self._value(key, rng)
        return found

    def _value(self, key: str, rng: random.Random) -> Any:
        if rng.random() < 0.15:
            return None
        if key == "status":
            return rng.choice(["active", "blocked", "done", "abandoned"])
        if key == "steps":
            steps: list[State] = [{"id": rng.choice([1, "1", 2, "b"])} for _ in range(rng.randint(0, 3))]
            for step in steps:
                step[rng.choice(["text", "status"])] = self.text(rng)
            return steps
        if key == "blockers":
            return [self.text(rng) for _ in range(rng.randint(0, 2))]
        if key == "free":
            return {
                rng.choice("xyz"): rng.choice([None, 1, True, {rng.choice("uv"): self.text(rng)}, [self.text(rng)]])
            }
        return self.text(rng)

    # operations, each carried out and checked

    def step(self, rng: random.Random, carry: Carry) -> None:
        """One random operation."""
        rng.choice([self.save, self.save, self.save, self.load, self.list, self.restore, self.read_one, self.clear])(
            rng, carry
        )

    def save(self, rng: random.Random, carry: Carry) -> None:
        """Merge, now and then under a name."""
        changes = self.changes(rng)
        expected = merged(self.state or {}, changes)
        changed = ordered(expected) != ordered(self.state or {})
        there = self.state is not None or changed
        name = rng.choice(["s1", "s2", "s3", "s4", "s5", "s6"]) if there and rng.random() < 0.3 else None
        answer = carry("save", state=changes, **({"snapshot": name} if name else {}))
        assert answer["changed"] == changed
        if changed:
            assert self.updated_at is None or answer["updated_at"] >= self.updated_at
            self.state, self.updated_at = expected, answer["updated_at"]
        assert answer["state"] == self.state and answer["updated_at"] == self.updated_at
        if name:
            assert answer["snapshot"]["name"] == name
            self._keep(name, "named", expected)

    def load(self, _rng: random.Random, carry: Carry) -> None:
        """Read all of it."""
        answer = carry("load")
        assert answer["exists"] == (self.state is not None) and not answer["synthesized"]
        assert (answer["session_id"], answer["updated_at"]) == (self.session, self.updated_at)
        assert ordered(answer["state"]) == ordered(self.state), (answer, self.state)

    def list(self, _rng: random.Random, carry: Carry) -> None:
        """The snapshots, the newest first."""
        answer = carry("list")
        assert [(each["name"], each["kind"]) for each in answer["snapshots"]] == [each[:2] for each in self.snapshots]
        status = carry("status")
        assert status["snapshots"] == len(self.snapshots) and status["exists"] == (self.state is not None)
        assert status["steps"]["total"] == len((self.state or {}).get("steps") or [])

    def read_one(self, rng: random.Random, carry: Carry) -> None:
        """One snapshot; nothing changes."""
        if self.snapshots:
            name, kind, state = rng.choice(self.snapshots)
            answer = carry("load_snapshot", name=name)
            assert (answer["name"], answer["kind"], answer["state"]) == (name, kind, state)

    def restore(self, rng: random.Random, carry: Carry) -> None:
        """Go back to one; what was becomes one itself."""
        if not self.snapshots:
            return
        name, _, state = rng.choice(self.snapshots)
        answer = carry("restore_snapshot", name=name)
        assert answer["state"] == state
        if ordered(state) != ordered(self.state):
            if self.state is not None:
                assert answer["undo"].startswith("pre-restore-")
                self._keep(answer["undo"], "pre_restore", self.state)
            self.state, self.updated_at = state, answer["updated_at"]
        else:
            assert answer["undo"] is None

    def clear(self, rng: random.Random, carry: Carry) -> None:
        """Now and then everything goes."""
        if rng.random() < 0.2:
            answer = carry("clear", confirmed=True)
            assert answer["cleared"] == (self.state is not None) and answer["snapshots"] == len(self.snapshots)
            self.state, self.updated_at, self.snapshots = None, None, []

    def _keep(self, name: str, kind: str, state: State) -> None:
        others = [each for each in self.snapshots if each[0] != name]
        found = [(name, kind, copy.deepcopy(state)), *others]
        newest = next((each for each in found if each[1] == "pre_restore"), None)
        self.snapshots = found[: self.limit] + [each for each in found[self.limit :] if each is newest]


def ordered(value: Any) -> Any:
    """A value in which the order of keys is always the same, and 1 is not true."""
    if isinstance(value, dict):
        return sorted((key, ordered(inner)) for key, inner in value.items())
    if isinstance(value, list):
        return [ordered(item) for item in value]
    return repr(value)
