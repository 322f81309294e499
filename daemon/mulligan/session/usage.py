"""Tokens of a session, each API message counted once.

The lines of one message repeat its usage, and early lines may bear less than the last: the highest output counts. A
message that another file brought before (a fork, a resume) is not this session's cost; the machine asks before it adds.
"""

from __future__ import annotations

import msgspec

from mulligan.transcript.events import Usage

#: Lines of a message need not be adjacent, but more than this many messages never lie between two of them.
_RECENT = 64


class Tokens(msgspec.Struct, frozen=True, array_like=True):
    """Counts of tokens: of one message, or a sum."""

    input: int = 0
    output: int = 0
    cache_creation: int = 0
    cache_read: int = 0

    @property
    def total(self) -> int:
        """All tokens that passed, from the cache or not."""
        return self.input + self.output + self.cache_creation + self.cache_read

    def replaced(self, old: Tokens, new: Tokens) -> Tokens:
        """The sum after one of its parts was found to be another."""
        return Tokens(
            self.input + new.input - old.input,
            self.output + new.output - old.output,
            self.cache_creation + new.cache_creation - old.cache_creation,
            self.cache_read + new.cache_read - old.cache_read,
        )


class Tally(msgspec.Struct):
    """The sum so far, and the messages that may still grow."""

    sum: Tokens = Tokens()
    recent: dict[str, Tokens] = {}

    def holds(self, message: str) -> bool:
        """Whether a message was counted here, lately."""
        return message in self.recent

    def add(self, event: Usage) -> Tokens | None:
        """Counts a message; its tokens as they stand now, or None if the line brought nothing new."""
        new = Tokens(event.input, event.output, event.cache_creation, event.cache_read)
        old = self.recent.get(event.message)
        if old is not None and (new == old or new.output < old.output):
            return None
        self.sum = self.sum.replaced(old or Tokens(), new)
        self.recent[event.message] = new
        while len(self.recent) > _RECENT:
            del self.recent[next(iter(self.recent))]
        return new
