"""Any conversation with turns, parallel calls, rewinds and compactions: each copy leads to what was sent then."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mulligan.transcript.fork import Naming, Point, copy_conversation
from support.client_view import conversation, leaf, read
from support.transcripts import Writer

NAMING = Naming("s1", "11111111-2222-4333-8444-000000000000", "t")

#: ("turn", numbers of parallel calls), ("rewind", which prompt), ("compact", how it links back)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("turn"), st.lists(st.integers(1, 4), max_size=3)),
        st.tuples(st.just("rewind"), st.integers(0, 9)),
        st.tuples(st.just("compact"), st.booleans()),
    ),
    min_size=1,
    max_size=12,
)


class Talk:
    """Writes what the client would; `before` is, for each prompt, the line that it followed."""

    def __init__(self, order: st.DataObject) -> None:
        self.write, self.order = Writer(), order
        self.lines: list[dict[str, Any]] = []
        self.before: dict[str, str | None] = {}
        self.last: str | None = None
        self.count = 0

    def add(self, line: dict[str, Any], parent: str | None) -> str:
        line["parentUuid"] = parent
        self.lines.append(line)
        self.last = line["uuid"]
        return str(line["uuid"])

    def turn(self, batches: list[int]) -> None:
        self.count += 1
        parent = self.last
        self.before[self.add(self.write.user(f"prompt {self.count}"), parent)] = parent
        for batch, calls in enumerate(batches):
            self.calls(f"m{self.count}.{batch}", calls)
        self.add(self.write.end(f"m{self.count}"), self.last)

    def calls(self, message: str, number: int) -> None:
        """Parallel calls: a chain of their lines, each result behind its own call, in any order."""
        called = []
        for index in range(number):
            called.append(self.add(self.write.call(f"{message}.{index}", "Write", message), self.last))
        for index in self.order.draw(st.permutations(range(number))):
            self.add(self.write.result(f"{message}.{index}"), called[index])

    def rewind(self, prompt: int) -> None:
        if self.before:
            self.last = list(self.before.values())[prompt % len(self.before)]

    def compact(self, links: bool) -> None:
        if self.last is None:
            return
        logical = self.last if links else "not in this file"
        boundary = self.write.line("system", subtype="compact_boundary", logicalParentUuid=logical)
        self.add(boundary, None)
        self.add(self.write.user("a summary", isCompactSummary=True), self.last)

    def data(self) -> bytes:
        return b"".join(json.dumps(line).encode() + b"\n" for line in self.lines)


@given(STEPS, st.data())
def test_each_copy_leads_to_what_was_sent_then(steps: list[tuple[str, Any]], data: st.DataObject) -> None:
    talk = Talk(data)
    for name, argument in steps:
        getattr(talk, name)(argument)
    file = talk.data()
    original = read(file)
    for prompt, before in talk.before.items():
        copy = copy_conversation(file, Point(before=prompt), NAMING)
        if before is None:
            assert not copy.messages
            continue
        copied = read(copy.data)
        assert conversation(copied, leaf(copied)) == conversation(original, before)
        known = [line["uuid"] for line in copied if line.get("uuid")]
        assert len(known) == len(set(known)) and prompt not in known
        assert {line["sessionId"] for line in copied} == {NAMING.new}
        # a copy of the copy is the same again
        again = copy_conversation(copy.data, Point(), NAMING)
        assert [line.get("uuid") for line in read(again.data)] == [line.get("uuid") for line in copied]


@given(STEPS, st.data())
def test_between_parallel_calls_what_was_answered_by_then_is_answered(
    steps: list[tuple[str, Any]], data: st.DataObject
) -> None:
    talk = Talk(data)
    for name, argument in steps:
        getattr(talk, name)(argument)
    results = [line for line in talk.lines if "toolUseResult" in line]
    for line in results:
        copied = read(copy_conversation(talk.data(), Point(at=line["uuid"]), NAMING).data)
        answered = [one["uuid"] for one in copied if "toolUseResult" in one]
        assert answered[-1] == line["uuid"]
        message = line["message"]["content"][0]["tool_use_id"].rpartition(".")[0]
        same = [one["uuid"] for one in results if message in one["message"]["content"][0]["tool_use_id"]]
        assert [uuid for uuid in answered if uuid in same] == same[: same.index(line["uuid"]) + 1]
