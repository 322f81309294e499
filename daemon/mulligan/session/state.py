"""What a session's machine knows, as a value that can be stored with the transcript's offset.

Bounded, whatever a transcript holds: what falls out of it is asked of the catalogue, or is an oddity of its own.
"""

from __future__ import annotations

import msgspec

from mulligan.clock import NANOSECONDS
from mulligan.model import Metadata
from mulligan.session.events import CallGuarded, PromptHeard
from mulligan.session.tools import ToolClass
from mulligan.session.usage import Tally
from mulligan.transcript.events import Command, Prompt, Queued

MOST_CALLS = 256
MOST_QUEUED = 64
MOST_KEYS = 256
#: What hooks told and no line has told yet.
MOST_HEARD = 16
MOST_GUARDS = 64
#: Without any line of the session for so long, a call that has no result is taken to have none.
CALL_TIMEOUT = 3600 * NANOSECONDS
#: A model that was asked answers, or fails, in less; a client that was killed writes no end of the turn.
SILENCE = 900 * NANOSECONDS


class Call(msgspec.Struct):
    """A call whose result is awaited.

    `announced`: an OpenCall was given out. `closed`: a CloseCall was, for want of a result. `guessed`: its own line was
    not seen. `background`: its result came, and it goes on.
    """

    name: str
    tool_class: ToolClass
    start: int | None
    agent: bool
    announced: bool = True
    closed: bool = False
    guessed: bool = False
    background: bool = False


class Guard(msgspec.Struct):
    """What a hook told of a call, and what came of it.

    `opened`: the call's line was seen, behind the line `parent`. `judged`: a checkpoint before the call, if it is worth
    one, was asked for. `late`: enough time went by for all lines to come.
    """

    told: CallGuarded
    opened: bool = False
    judged: bool = False
    parent: str = ""
    late: bool = False


class Turn(msgspec.Struct):
    """Where the conversation is: `open` from a prompt to the last word, `settled` when the client confirmed the end."""

    open: bool = False
    settled: bool = True


class State(msgspec.Struct):
    """Everything that one session's machine has to remember."""

    session: str
    prompts: int = 0
    prompt_text: str = ""
    model: str = ""
    messages: int = 0
    last_uuid: str = ""
    last_time: int | None = None
    turn: Turn = msgspec.field(default_factory=Turn)
    tally: Tally = msgspec.field(default_factory=Tally)
    calls: dict[str, Call] = {}
    queue: list[Queued] = []
    absorbed: list[str] = []
    held: list[Prompt] = []
    ticks_held: int = 0
    copied_at: int | None = None
    command: Command | None = None
    caveat: str = ""
    keys: dict[str, bool] = {}
    guards: dict[str, Guard] = {}
    heard: list[PromptHeard] = []


def counts_of(state: State) -> Metadata:
    """What a checkpoint says of its session: the counts up to now."""
    tokens = state.tally.sum
    return Metadata(
        total_tokens=tokens.total,
        input_tokens=tokens.input,
        output_tokens=tokens.output,
        cache_creation_tokens=tokens.cache_creation,
        cache_read_tokens=tokens.cache_read,
        model_used=state.model,
        user_prompt=state.prompt_text,
    )


def at_work(state: State, silence: int) -> bool:
    """Whether an agent is in the middle of a turn, if its last line is so many nanoseconds old.

    From a prompt until the turn has ended or was interrupted, or until nothing was heard for longer than an answer, or
    a call that is open, may take.
    """
    running = any(not call.closed for call in state.calls.values())
    return (state.turn.open or bool(state.held)) and silence < (CALL_TIMEOUT if running else SILENCE)


def call_open(state: State) -> bool:
    """Whether a call that may be changing files has no result yet.

    Tools that write one file do it in one step; what they wait for is mostly a person's permission.
    """
    acting = (ToolClass.WINDOW, ToolClass.AGENT)
    return any(not call.closed and call.tool_class in acting for call in state.calls.values())
