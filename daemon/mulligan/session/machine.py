"""The machine of one session: lines in, commands out, no I/O and no clock.

It takes care that each prompt, call and token counts once, although the lines come late, twice, out of order, copied
into other files, or not at all. What it gave out it remembers for a while; everything older it asks `known`, which has
to say yes to the key of every command ever given out, by any session. Its state can be stored at any moment, and the
machine goes on from there with the same commands.

A checkpoint is a cut at the line's own moment, so waiting for more lines before a decision costs nothing: that is how
the prompts of clients before 2.0 are told from copies, whose every id but those of messages and tools is new.
"""

from __future__ import annotations

from collections.abc import Callable

from mulligan.clock import MILLISECOND
from mulligan.model import Metadata, Tool
from mulligan.session.events import (
    CallGuarded,
    CaptureHint,
    ClientGone,
    ClientIdle,
    CloseCall,
    Compaction,
    Condition,
    EndBackground,
    EndTurn,
    Exact,
    Note,
    OpenCall,
    PromptHeard,
    RecordPrompt,
    RecordUsage,
    Remember,
    Reread,
    SessionCommand,
    SessionInput,
    Settings,
    Strategy,
    TakeCheckpoint,
    Tick,
)
from mulligan.session.hints import written_paths
from mulligan.session.moments import Moments
from mulligan.session.replay import Replay, renews_ids
from mulligan.session.state import CALL_TIMEOUT, MOST_CALLS, MOST_QUEUED, Call, State, counts_of
from mulligan.session.strategy import manual, per_prompt, per_tool_use, smart
from mulligan.session.tools import BUILT_IN_COMMANDS, ToolClass, classify, is_shell
from mulligan.transcript.events import (
    BackgroundEnded,
    CallFinished,
    CallStarted,
    Command,
    CommandOutput,
    Compacted,
    HarnessNote,
    Interrupted,
    Prompt,
    PromptKind,
    Queued,
    QueueOperation,
    TranscriptEvent,
    TurnEnded,
    Usage,
    prompt_of,
)

STRATEGIES = {
    Strategy.MANUAL: manual.decide,
    Strategy.PER_PROMPT: per_prompt.decide,
    Strategy.PER_TOOL_USE: per_tool_use.decide,
    Strategy.SMART: smart.decide,
}
#: Strategies that keep the tree before a call as well, if a hook tells its moment.
KEEPS_BEFORE = (Strategy.PER_TOOL_USE, Strategy.SMART)
#: A result's line is written after the files, with a time cut to milliseconds; the same holds for the end of a turn.
AFTER = MILLISECOND
_PROMPT_IN_METADATA = 10_000
#: A shell command is kept so far: what it did beyond the files is read from it later.
_COMMAND_KEPT = 20_000


class SessionMachine:
    """One session. `since`: what the lines say of earlier moments is the past and causes nothing."""

    def __init__(
        self,
        state: State,
        known: Callable[[str], bool],
        settings: Settings = Settings(),  # noqa: B008 - frozen
        *,
        since: int = 0,
    ) -> None:
        self.state = state
        self._replay = Replay(state, known, since)
        self._moments = Moments(state)
        self._settings = settings

    def set_settings(self, settings: Settings) -> None:
        """What holds from the next event on."""
        self._settings = settings

    def feed(self, event: TranscriptEvent | SessionInput) -> list[SessionCommand]:
        """The commands that an event causes, in the order in which they are to be executed."""
        match event:
            case Tick():
                return self._tick(event)
            case Reread():
                self.state.queue, self.state.held, self.state.command, self.state.caveat = [], [], None, ""
                return []
            case ClientIdle():
                return self._end_turn("turn_end:" + event.key, event.time, settled=True)
            case ClientGone():
                return self._release_held() + self._close_calls(event.time, "client_gone", everyones=True)
            case PromptHeard():
                self._moments.hear(event)
                return []
            case CallGuarded():
                return self._moments.guard(event, self._replay.seen("call:" + event.tool)) + self._before_calls()
        commands = self._dispatch(event) if event.agent else self._line(event)
        return self._moments.refine(commands, event.parent) + self._before_calls()

    def _line(self, event: TranscriptEvent) -> list[SessionCommand]:
        """An event of the session's own transcript."""
        commands = self._resolve(event) + self._dispatch(event)
        if event.time is not None and not event.replayed and not isinstance(event, HarnessNote | CommandOutput):
            self.state.last_time = max(event.time, self.state.last_time or 0)
        return commands

    def metadata(self) -> Metadata:
        """The session's counts up to now."""
        return counts_of(self.state)

    def _dispatch(self, event: TranscriptEvent) -> list[SessionCommand]:
        match event:
            case Prompt():
                return self._prompt_line(event)
            case Command():
                return self._command_line(event)
            case Queued():
                return self._queued(event)
            case CallStarted():
                return self._call_started(event)
            case CallFinished():
                return self._call_finished(event)
            case BackgroundEnded():
                return self._background_ended(event)
            case Usage():
                return self._usage(event)
            case TurnEnded():
                return self._turn_ended(event)
            case Interrupted():
                return self._interrupted(event)
            case Compacted():
                return self._compacted(event)
            case HarnessNote():
                self.state.caveat = event.uuid if event.caveat else ""
                return []
            case CommandOutput():
                return []

    def _resolve(self, event: TranscriptEvent) -> list[SessionCommand]:
        """What an event decides about the lines before it."""
        commands: list[SessionCommand] = []
        state = self.state
        if (command := state.command) is not None:
            expanded = isinstance(event, HarnessNote) and not event.caveat and event.parent == command.uuid
            if expanded or isinstance(event, Usage):
                state.command = None
                commands += self._arrive(prompt_of(command, PromptKind.COMMAND, command.key, command.text))
            elif isinstance(event, CommandOutput | Compacted | Prompt | Command):
                state.command = None
        if state.held and isinstance(event, Usage | CallStarted | CallFinished | TurnEnded):
            if self._replay.is_copy(event):
                state.held, state.copied_at = [], event.time
            else:
                commands += self._release_held()
        return commands

    def _release_held(self) -> list[SessionCommand]:
        held, self.state.held = self.state.held, []
        return [command for prompt in held for command in self._prompt(prompt)]

    # -- prompts ------------------------------------------------------------------------------------------------------

    def _prompt_line(self, event: Prompt) -> list[SessionCommand]:
        if event.kind is PromptKind.QUEUED and event.text in self.state.absorbed:
            self.state.absorbed.remove(event.text)
            self._replay.keep("prompt:" + event.key)
            return [Remember(session=self.state.session, key="prompt:" + event.key)]
        return self._arrive(event)

    def _arrive(self, event: Prompt) -> list[SessionCommand]:
        """A prompt that counts at once, or when the next lines have shown that it is not a copy."""
        if renews_ids(event.version) and not self._replay.seen("prompt:" + event.key):
            self.state.held.append(event)
            self.state.ticks_held = 0
            return []
        return self._prompt(event)

    def _command_line(self, event: Command) -> list[SessionCommand]:
        after_caveat = event.parent and event.parent == self.state.caveat
        built_in = event.name.removeprefix("/") in BUILT_IN_COMMANDS or after_caveat
        if not built_in and not event.replayed:
            self.state.command = event
        return []

    def _queued(self, event: Queued) -> list[SessionCommand]:
        queue = self.state.queue
        match event.operation:
            case QueueOperation.ENQUEUE:
                if all(event.key != waiting.key for waiting in queue):
                    queue.append(event)
                    del queue[:-MOST_QUEUED]
            case QueueOperation.POP_ALL:
                queue.clear()
            case QueueOperation.DEQUEUE:
                if queue:
                    queue.pop(0)
            case QueueOperation.REMOVE:
                return self._absorbed(event)
        return []

    def _absorbed(self, event: Queued) -> list[SessionCommand]:
        """Words were taken out of the queue: into the running turn, unless a reason says that a line of them follows.

        Clients that give no reason write nothing else. Their prompt stands where the agent heard it, because what it
        did until then it did for the prompt before.
        """
        queue = self.state.queue
        place = next((n for n, one in enumerate(queue) if event.text and one.text == event.text), 0)
        if not queue:
            return []
        words = queue.pop(place)
        if event.reason or not words.text or words.text.startswith("/"):
            return []
        self.state.absorbed = [*self.state.absorbed, words.text][-MOST_QUEUED:]
        return self._prompt(prompt_of(event, PromptKind.QUEUED, words.key, words.text))

    def _prompt(self, event: Prompt) -> list[SessionCommand]:
        state, key = self.state, "prompt:" + event.key
        if self._replay.dropped(key, event):
            return []
        commands: list[SessionCommand] = []
        if event.kind is not PromptKind.QUEUED:  # a queued one joins the turn that runs
            commands += self._close_calls(event.time, "prompt")
            if state.turn.open:
                commands += self._end_turn("turn_end:before:" + event.key, state.last_time, settled=True)
            state.turn.open, state.turn.settled = event.kind is not PromptKind.BASH, False
        state.prompts += 1
        state.prompt_text = event.text[:_PROMPT_IN_METADATA]
        told = None if event.kind is PromptKind.QUEUED else self._moments.of_prompt(event.text, event.time)
        moment = told.time if told else event.time
        commands.append(
            RecordPrompt(
                session=state.session,
                key=key,
                ordinal=state.prompts,
                moment=moment,
                kind=event.kind,
                text=event.text,
                message_uuid=event.uuid,
                message_index=state.messages,
            )
        )
        return commands + self._by_strategy("prompt", key, event, moment, None, told.exact if told else None)

    # -- calls --------------------------------------------------------------------------------------------------------

    def _call_started(self, event: CallStarted) -> list[SessionCommand]:
        state, key = self.state, "call:" + event.tool
        waiting = state.calls.get(event.tool)
        if waiting is not None and waiting.guessed and not self._replay.past(event):
            waiting.guessed, waiting.name, waiting.tool_class = False, event.name, classify(event.name)
            waiting.start, waiting.agent = event.time, event.agent
            if not waiting.background:
                del state.calls[event.tool]
            return [self._open(event.tool, waiting, event.paths)]
        past = self._replay.past(event) and not event.replayed
        if past and not self._replay.seen(key):
            self._add_call(event.tool, Call(event.name, classify(event.name), event.time, event.agent, announced=False))
            return []
        if self._replay.dropped(key, event):
            return []
        if not event.agent:
            state.turn.open, state.turn.settled = True, False
        call = Call(event.name, classify(event.name), event.time, event.agent)
        self._add_call(event.tool, call)
        commands: list[SessionCommand] = [self._open(event.tool, call, event.paths, event.command or "")]
        hints = event.paths if call.tool_class is not ToolClass.READ_ONLY else ()
        if event.command and is_shell(event.name) and event.cwd:
            hints += written_paths(event.command, event.cwd)
        return commands + self._hint(hints)

    def _add_call(self, tool: str, call: Call) -> None:
        calls = self.state.calls
        calls[tool] = call
        while len(calls) > MOST_CALLS:
            del calls[next(iter(calls))]

    def _open(self, tool: str, call: Call, paths: tuple[bytes, ...], command: str = "") -> OpenCall:
        return OpenCall(
            session=self.state.session,
            key="call:" + tool,
            tool=tool,
            name=call.name,
            tool_class=call.tool_class,
            start=call.start,
            paths=paths if call.tool_class is ToolClass.PATH else (),
            agent=call.agent,
            prompt=self.state.prompts,
            command=command[:_COMMAND_KEPT],
        )

    def _hint(self, paths: tuple[bytes, ...]) -> list[SessionCommand]:
        return [CaptureHint(session=self.state.session, paths=tuple(dict.fromkeys(paths)))] if paths else []

    def _before_calls(self) -> list[SessionCommand]:
        """The checkpoints of the trees that calls began with, as hooks found them; read-only ones are not worth any."""
        settings, commands = self._settings, list[SessionCommand]()
        keeps = settings.auto_checkpoint and settings.strategy in KEEPS_BEFORE
        for guard in self._moments.due():
            told, key = guard.told, "before:" + guard.told.tool
            idle = settings.strategy is Strategy.SMART and classify(told.name) is ToolClass.READ_ONLY
            if keeps and not idle and told.exact is not None and not self._replay.seen(key):
                self._replay.keep(key)
                tool, uuid = Tool(told.name, told.tool), guard.parent or self.state.last_uuid
                condition = Condition.TREE_DIFFERS
                commands.append(self._checkpoint("tool_use", key, uuid, told.time, condition, tool, told.exact))
        return commands

    def _call_finished(self, event: CallFinished) -> list[SessionCommand]:
        state, key = self.state, "tool_use:" + event.tool
        if self._replay.dropped(key, event):
            if not event.replayed and self._replay.past(event):
                state.calls.pop(event.tool, None)
            return []
        commands: list[SessionCommand] = []
        call = state.calls.get(event.tool)
        if call is None:  # its own line is lost, or yet to come
            call = Call(event.kind, classify(event.kind), event.time, event.agent, announced=False, guessed=True)
            self._add_call(event.tool, call)
            self._replay.keep("call:" + event.tool)
            commands.append(self._note("result without a call"))
        if not call.announced:
            call.announced = True
            commands.append(self._open(event.tool, call, event.paths))
        close = CloseCall(
            session=state.session,
            key=key,
            tool=event.tool,
            end=event.time,
            reason="result",
            is_error=event.is_error,
            background=event.background,
        )
        commands += [close, *self._hint(event.paths)]
        moment = None if event.time is None else event.time + AFTER
        tool = Tool(call.name, event.tool, event.is_error)
        commands += self._by_strategy("tool_use", key, event, moment, tool)
        call.closed, call.background = True, event.background
        if not call.guessed and not call.background:
            del state.calls[event.tool]
        return commands

    def _background_ended(self, event: BackgroundEnded) -> list[SessionCommand]:
        call = self.state.calls.get(event.tool)
        if call is None or not call.background:
            return []
        del self.state.calls[event.tool]
        return [EndBackground(session=self.state.session, tool=event.tool, end=event.time)]

    def _close_calls(self, end: int | None, reason: str, *, everyones: bool = False) -> list[SessionCommand]:
        """Closes what has no result. A subagent's calls go on when its parent's turn ends, and over the next prompt."""
        commands: list[SessionCommand] = []
        for tool, call in self.state.calls.items():
            if call.closed or not call.announced or (call.agent and not everyones):
                continue
            call.closed = True
            key = f"unanswered:{tool}"
            commands.append(CloseCall(session=self.state.session, key=key, tool=tool, end=end, reason=reason))
        return commands

    # -- the rest -----------------------------------------------------------------------------------------------------

    def _usage(self, event: Usage) -> list[SessionCommand]:
        state, key = self.state, "usage:" + event.message
        if event.replayed or self._replay.past(event):
            return []
        if not state.tally.holds(event.message) and self._replay.dropped(key, event):
            return []
        tokens = state.tally.add(event)
        if tokens is None:
            return []
        if not event.agent:
            state.model = event.model or state.model
            if not self._replay.seen("turn_end:" + event.message):  # else one more line of the last word
                state.turn.open, state.turn.settled = True, False
        session, message = state.session, event.message
        return [RecordUsage(session=session, key=key, message=message, model=event.model, tokens=tokens)]

    def _turn_ended(self, event: TurnEnded) -> list[SessionCommand]:
        key = "turn_end:" + event.key
        if self._replay.seen(key) or event.replayed or self._replay.past(event):
            return []
        turn = self.state.turn
        if not turn.open and (turn.settled or not event.final):
            return []
        return self._end_turn(key, event.time, settled=event.final, uuid=event.uuid)

    def _interrupted(self, event: Interrupted) -> list[SessionCommand]:
        key = "turn_end:" + event.uuid
        if self._replay.seen(key) or event.replayed or self._replay.past(event):
            return []
        commands = self._close_calls(event.time, "interrupted")
        return commands + self._end_turn(key, event.time, settled=True, uuid=event.uuid, interrupted=True)

    def _end_turn(
        self, key: str, time: int | None, *, settled: bool, uuid: str = "", interrupted: bool = False
    ) -> list[SessionCommand]:
        """The end of a turn. The model's last word ends it; when the client confirms, hooks may have changed more."""
        state, settings = self.state, self._settings
        if self._replay.seen(key) or (not state.turn.open and state.turn.settled):
            return []
        self._replay.keep(key)
        commands = self._close_calls(time, "turn_end")
        moment = None if time is None else time + AFTER
        if state.turn.open:
            commands.append(EndTurn(session=state.session, key=key, moment=moment, interrupted=interrupted))
        state.turn.open, state.turn.settled = False, settled
        if settings.auto_checkpoint and settings.turn_end and settings.strategy is not Strategy.MANUAL:
            commands.append(self._checkpoint("turn_end", key, uuid, moment, Condition.TREE_DIFFERS))
        return commands

    def _compacted(self, event: Compacted) -> list[SessionCommand]:
        """A landmark besides what the strategy takes, as the end of a turn: the conversation as it was before."""
        key, settings = "compaction:" + event.uuid, self._settings
        if event.agent or self._replay.dropped(key, event):
            return []
        commands: list[SessionCommand] = []
        if settings.auto_checkpoint and settings.turn_end and settings.strategy is not Strategy.MANUAL:
            moment = None if event.time is None else event.time + AFTER
            commands.append(self._checkpoint("compaction", key, event.before, moment, Condition.ALWAYS))
        return [*commands, Compaction(session=self.state.session, key=key)]

    def _tick(self, tick: Tick) -> list[SessionCommand]:
        state, commands = self.state, list[SessionCommand]()
        self._moments.tick(tick.time)
        if state.held:
            state.ticks_held += 1
            if state.ticks_held >= 2:
                commands += self._release_held()
        quiet = state.last_time is None or tick.time - state.last_time > CALL_TIMEOUT
        old = [call for call in state.calls.values() if call.start is None or tick.time - call.start > CALL_TIMEOUT]
        if quiet and len(old) == len(state.calls):
            commands += self._close_calls(tick.time, "timeout", everyones=True)
        return commands + self._before_calls()

    def _note(self, what: str) -> Note:
        return Note(session=self.state.session, what=what)

    def _by_strategy(
        self,
        trigger: str,
        key: str,
        event: Prompt | CallFinished,
        moment: int | None,
        tool: Tool | None,
        exact: Exact | None = None,
    ) -> list[SessionCommand]:
        if not self._settings.auto_checkpoint:
            return []
        condition = STRATEGIES[self._settings.strategy](event, self.state)
        if condition is None:
            return []
        return [self._checkpoint(trigger, key, event.uuid, moment, condition, tool, exact)]

    def _checkpoint(
        self,
        trigger: str,
        key: str,
        uuid: str,
        moment: int | None,
        condition: Condition,
        tool: Tool | None = None,
        exact: Exact | None = None,
    ) -> TakeCheckpoint:
        return TakeCheckpoint(
            trigger=trigger,
            event_key=key,
            moment=moment,
            session=self.state.session,
            condition=condition,
            strategy=str(self._settings.strategy),
            message_uuid=uuid,
            message_index=self.state.messages,
            tool=tool,
            metadata=self.metadata(),
            exact=exact,
        )
