"""What goes into a session machine besides the lines, and the commands that come out.

Moments are wall-clock nanoseconds, as the transcript's lines bear them; whoever executes a command turns them into
journal time. A moment of None means that no line told the time: the command is about now.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from mulligan.model import Metadata, Tool
from mulligan.session.tools import ToolClass
from mulligan.session.usage import Tokens
from mulligan.transcript.events import PromptKind


class Strategy(StrEnum):
    """When checkpoints are taken on their own."""

    MANUAL = "manual"
    PER_PROMPT = "per_prompt"
    PER_TOOL_USE = "per_tool_use"
    SMART = "smart"


class Settings(msgspec.Struct, frozen=True):
    """What a session goes by; the values are the product's defaults."""

    strategy: Strategy = Strategy.SMART
    auto_checkpoint: bool = True
    turn_end: bool = True


class Exact(msgspec.Struct, frozen=True):
    """Where a project's journal stood behind a barrier: the rows up to `seq` are all that had happened, and no more."""

    project: int
    seq: int


class Condition(StrEnum):
    """What must hold for a checkpoint to be taken, judged when it has been placed.

    `OWNS_AND_DIFFERS`: the call owns at least one row, and the tree is not the parent's.
    """

    ALWAYS = "always"
    TREE_DIFFERS = "tree_differs"
    OWNS_AND_DIFFERS = "owns_and_differs"


# -- in ---------------------------------------------------------------------------------------------------------------


class Tick(msgspec.Struct, frozen=True, tag=True):
    """About a second went by and all lines that were there have been fed. `time` is the wall clock."""

    time: int


class Reread(msgspec.Struct, frozen=True, tag=True):
    """The session's main file is read from its start again: its lines come once more."""


class ClientIdle(msgspec.Struct, frozen=True, tag=True):
    """The client says that it waits for the person, or the session has been quiet for long. `key` is unique."""

    key: str
    time: int


class ClientGone(msgspec.Struct, frozen=True, tag=True):
    """The client has ended; no call of its can be running."""

    time: int


class CallGuarded(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A hook told of a call before its tool ran; it runs since `time`. Without `exact` the hook could not wait."""

    tool: str
    name: str
    time: int
    exact: Exact | None = None


class PromptHeard(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A hook told of a person's words before anything was done for them; `words` is what `digest_of` makes of them."""

    words: bytes
    time: int
    exact: Exact


# -- out --------------------------------------------------------------------------------------------------------------


class TakeCheckpoint(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Take one, if `condition` holds at `moment`, or at `exact`, which is the same moment as a hook's barrier found it.

    `event_key` is unique: the same event never takes two.
    """

    trigger: str
    event_key: str
    moment: int | None
    session: str
    condition: Condition
    strategy: str
    message_uuid: str
    message_index: int
    tool: Tool | None = None
    metadata: Metadata = Metadata()
    exact: Exact | None = None


class RecordPrompt(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A person's words: the `ordinal`-th of the session. `moment` is the position just before what followed them."""

    session: str
    key: str
    ordinal: int
    moment: int | None
    kind: PromptKind
    text: str
    message_uuid: str
    message_index: int


class OpenCall(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A call's window begins; `command` is a shell's.

    The same `tool` may be opened again with a better `start` and name.
    """

    session: str
    key: str
    tool: str
    name: str
    tool_class: ToolClass
    start: int | None
    paths: tuple[bytes, ...]
    agent: bool
    prompt: int
    command: str = ""


class GuardCall(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A hook saw a call, which was opened, begin at `start`: rows up to the barrier are none of it.

    `barrier` 0: the hook could not wait for one, and the call is unguarded; then `start` is no better than the line's.
    """

    session: str
    tool: str
    start: int
    barrier: int


class CloseCall(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A call's window ends.

    `reason` is "result", or why there was none: "prompt", "turn_end", "interrupted", "timeout", "client_gone". A result
    that comes later closes it again. `background`: it goes on until EndBackground, or nobody knows when.
    """

    session: str
    key: str
    tool: str
    end: int | None
    reason: str
    is_error: bool = False
    background: bool = False


class EndBackground(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What a call left running has ended."""

    session: str
    tool: str
    end: int | None


class RecordUsage(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A message's tokens; a later one of the same `message` replaces it."""

    session: str
    key: str
    message: str
    model: str
    tokens: Tokens


class CaptureHint(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Look at these absolute paths soon; they may lie outside the project. Attributes nothing."""

    session: str
    paths: tuple[bytes, ...]


class EndTurn(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The agent is done, or was stopped."""

    session: str
    key: str
    moment: int | None
    interrupted: bool = False


class Compaction(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """The conversation was replaced by a summary: what is kept beside it is to be made sure of."""

    session: str
    key: str


class Note(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Something to count. Never an error."""

    session: str
    what: str


class Remember(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A key that means something known already: `known` is to say yes to it from now on."""

    session: str
    key: str


SessionInput = Tick | Reread | ClientIdle | ClientGone | CallGuarded | PromptHeard
SessionCommand = (
    TakeCheckpoint
    | RecordPrompt
    | OpenCall
    | GuardCall
    | CloseCall
    | EndBackground
    | RecordUsage
    | CaptureHint
    | EndTurn
    | Compaction
    | Note
    | Remember
)
