"""The conversation that belongs to a position: found, copied for a directory, and written where the client looks.

The original transcript is only ever read. The copy appears under its name when it is whole and durable.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass

from mulligan.clock import Clock
from mulligan.errors import RefusedError
from mulligan.faults import point
from mulligan.model import Checkpoint
from mulligan.project.naming import Position
from mulligan.session_ids import is_opencode
from mulligan.store.atomic import make_private_directory, sync_directory, write_file
from mulligan.store.catalogue import Catalogue
from mulligan.store.records import AnyFact, CurrentFact, SessionFact
from mulligan.store.store import Store
from mulligan.transcript.fork import Copy, Naming, Point, copy_conversation
from mulligan.transcript.locate import slug

_PROMPT, _BEFORE = "prompt:", "turn_end:before:"
_NOTHING = Copy()


@dataclass(frozen=True, slots=True)
class Conversation:
    """A copy that is ready to be written, or the reason why there is none.

    `refused`: there is a conversation, and it cannot be copied. Without that reason and without `copy.messages` there
    was nothing to copy. `directory` is where the new session `session` is resumed; `source` is the session it was.
    """

    source: str = ""
    session: str = ""
    directory: str = ""
    path: str = ""
    copy: Copy = _NOTHING
    refused: str = ""

    @property
    def there(self) -> bool:
        """Whether there is something to write."""
        return self.copy.messages > 0

    @property
    def command(self) -> str:
        """What goes on with it, in its directory."""
        return f"claude --resume {self.session}"

    def without(self) -> str:
        """Why nothing can be resumed, in words; "" if something can."""
        if self.there:
            return ""
        if self.refused:
            return f"the conversation was not copied: {self.refused}"
        return "no conversation: " + ("nothing was said before" if self.source else "it belongs to no session")


def source_of(position: Position, session: str) -> str:
    """The session whose conversation belongs to a position; `session` is one that was asked for. May be ""."""
    return session or position.session or (position.checkpoint.session if position.checkpoint else "")


def point_of(catalogue: Catalogue, clock: Clock, position: Position, source: str) -> Point:
    """Where a session's conversation ends at a position; of another session than the position's, by time alone."""
    made = position.checkpoint
    if position.prompt and position.session == source:
        moment = made.timestamp if made else position.cut.moment
        return Point(before=position.prompt.removeprefix(_PROMPT), moment=moment - clock.correction)
    assert made is not None
    moment = made.timestamp - clock.correction
    if made.session != source:
        return Point(moment=moment)
    if made.trigger == "prompt":
        return Point(before=made.event_key.removeprefix(_PROMPT), moment=moment)
    if made.event_key.startswith(_BEFORE):
        return Point(before=made.event_key.removeprefix(_BEFORE), moment=moment)
    return Point(at="" if _is_agents(catalogue, made) else made.message_uuid, moment=moment)


def _is_agents(catalogue: Catalogue, made: Checkpoint) -> bool:
    """Whether a subagent's call led to a checkpoint: its lines are in another file."""
    if made.tool is None:
        return False
    found = catalogue.db.execute("select agent from call where id = ?", (made.tool.id,)).fetchone()
    return found is not None and bool(found[0])


def prepare(
    store: Store, position: Position, session: str, title: str, *, directory: str, moved_from: str
) -> Conversation:
    """Copy the conversation of a position for a directory, in memory. Raises nothing: a refusal is in the result.

    Both directories are as the client writes them: what is not UTF-8 is replaced.
    """
    source, catalogue = source_of(position, session), store.catalogue()
    found = catalogue.db.execute("select transcript from session where id = ?", (source,)).fetchone()
    if found is None:
        return Conversation()
    new = str(uuid.uuid4())
    naming = Naming(source, new, title, *((moved_from, directory) if moved_from != directory else ()))
    try:
        original = os.fsdecode(found[0])
        if is_opencode(source):
            raise RefusedError("OpenCode keeps its conversations itself")
        copy = copy_conversation(_read(original), point_of(catalogue, store.clock, position, source), naming)
    except RefusedError as refusal:
        return Conversation(source, refused=refusal.message)
    projects = os.path.dirname(os.path.dirname(original))
    return Conversation(source, new, directory, os.path.join(projects, slug(directory), f"{new}.jsonl"), copy)


def _read(path: str) -> bytes:
    if not path:
        raise RefusedError("where its transcript lies is not known")
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise RefusedError(f"its transcript cannot be read: {reason}") from error


def bring(conversation: Conversation, store: Store, project: int, current: str) -> Conversation:
    """Write a copy for a project, durably, with the old session's backups of files, and record its session.

    The new session stands at a checkpoint, and is as old as its last words: nobody works in it yet. Returns the
    conversation, or one that is refused if it could not be written: then there is nothing that the client would find.
    """
    if not conversation.there:
        return conversation
    last = store.clock.from_wall(conversation.copy.last)
    facts: list[AnyFact] = [
        SessionFact(conversation.session, project, os.fsencode(conversation.path), last, last),
        CurrentFact(project, conversation.session, current),
    ]
    try:
        _link_backups(conversation)
        directory = os.path.dirname(conversation.path)
        make_private_directory(directory)
        sync_directory(os.path.dirname(directory))
        store.log.append(facts)  # first, so that whoever reads the file finds the session known
        point("conversation.recorded")
        write_file(conversation.path, conversation.copy.data)
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        return Conversation(conversation.source, refused=f"{conversation.path} cannot be written: {reason}")
    return conversation


def _link_backups(conversation: Conversation) -> None:
    """The client's own backups under the new session's name: without them its rewind would delete the files."""
    config_dir = os.path.dirname(os.path.dirname(os.path.dirname(conversation.path)))
    history = os.path.join(config_dir, "file-history")
    try:
        names = os.listdir(os.path.join(history, conversation.source))
    except (FileNotFoundError, NotADirectoryError):
        return
    target = os.path.join(history, conversation.session)
    make_private_directory(target)
    for name in names:
        backup = os.path.join(history, conversation.source, name)
        try:
            os.link(backup, os.path.join(target, name), follow_symlinks=False)
        except OSError:
            with open(backup, "rb") as file:
                write_file(os.path.join(target, name), file.read())
    sync_directory(target)
