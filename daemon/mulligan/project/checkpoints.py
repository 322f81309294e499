"""Taking checkpoints: a cut of the journal with a parent, counts and what it does not hold."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from mulligan.clock import FOREVER
from mulligan.model import ANOTHER_ROOT, Checkpoint, Cut, Git, Kind, Metadata, Tool
from mulligan.store.catalogue import Catalogue, Project
from mulligan.store.digest import add_digest, entry_digest

_LETTERS = "abcdefghijkmnpqrstuvwxyz"
_ALPHABET = _LETTERS + "23456789"
IGNORED_REASON = "ignored"
#: So many paths that are new after a gap are named.
_LISTED = 1000


@dataclass(frozen=True, slots=True)
class Request:
    """What a checkpoint is to say of itself; the cut and the counts are found when it is placed.

    `parent` None means the project's current checkpoint. `moment` FOREVER means now; `cut` and `timestamp` are given
    for one that stands at another position.
    `only_if_different`: none is taken if the tree equals the parent's. `counts` are what differs from the parent, where
    that is known.
    """

    trigger: str
    session: str = ""
    description: str = ""
    pin: bool = False
    moment: int = FOREVER
    placement: str = "now"
    strategy: str = ""
    event_key: str = ""
    message_uuid: str = ""
    message_index: int = 0
    tool: Tool | None = None
    metadata: Metadata = field(default_factory=Metadata)
    parent: str | None = None
    only_if_different: bool = False
    make_current: bool = True
    incomplete: list[tuple[bytes, str]] = field(default_factory=list)
    cut: Cut | None = None
    timestamp: int = 0
    counts: Counts | None = None


def new_id() -> str:
    """A checkpoint id: a letter, then eleven letters or digits without look-alikes (60 bits)."""
    return secrets.choice(_LETTERS) + "".join(secrets.choice(_ALPHABET) for _ in range(11))


@dataclass(slots=True)
class Counts:
    """What differs between two trees."""

    added: int = 0
    modified: int = 0
    deleted: int = 0

    @property
    def all(self) -> int:
        """Changed files."""
        return self.added + self.modified + self.deleted

    def count(self, old: Kind, new: Kind, times: int = 1) -> None:
        """Count paths that were one kind and are another now; what was unknown counts as neither."""
        was, is_ = old in (Kind.FILE, Kind.LINK), new in (Kind.FILE, Kind.LINK)
        if was and is_:
            self.modified += times
        elif is_ and old != Kind.UNKNOWN:
            self.added += times
        elif was and new != Kind.UNKNOWN:
            self.deleted += times


def count_changes(catalogue: Catalogue, project: int, before: Cut, after: Cut) -> Counts:
    """Files and links added, modified and deleted from one cut to another."""
    counts = Counts()
    for old, new, times in catalogue.kinds_changed(project, before, after):
        counts.count(old, new, times)
    return counts


def make_checkpoint(
    catalogue: Catalogue, project: Project, request: Request, cut: Cut, now: int, git: Callable[[], Git | None]
) -> Checkpoint | None:
    """The checkpoint that a request asks for at a cut, or None if nothing differs and that was the condition.

    Costs what changed since the parent and since the cut, at any size of tree.
    """
    parent = catalogue.checkpoint(request.parent) if request.parent else None
    counts = Counts(added=project.files + project.links)
    if parent is not None:
        known = request.counts
        counts = known if known is not None else count_changes(catalogue, project.id, parent.cut, cut)
        if request.only_if_different and not _differs(catalogue, project.id, parent.cut, cut):
            return None
    size, difference = project.size, 0
    if cut.moment != FOREVER or cut.seq != project.last_seq:
        for path, entry, live in catalogue.differences(project.id, cut, Cut(project.last_seq, FOREVER)):
            size += entry.size - live.size
            difference += entry_digest(path, entry) - entry_digest(path, live)
    tree = add_digest(project.digest, difference).hex()
    metadata = msgspec.structs.replace(
        request.metadata,
        file_changes=counts.all,
        added=counts.added,
        modified=counts.modified,
        deleted=counts.deleted,
        snapshot_size=size,
    )
    incomplete, special = _left_out(catalogue, project.id, cut)
    return Checkpoint(
        id=new_id(),
        ordinal=project.next_ordinal,
        project=project.id,
        session=request.session,
        parent=parent.id if parent else "",
        timestamp=request.timestamp or (now if cut.moment == FOREVER else cut.moment),
        created=now,
        seq=cut.seq,
        moment=cut.moment,
        description=request.description,
        trigger=request.trigger,
        placement=request.placement,
        strategy=request.strategy,
        incomplete=request.incomplete + incomplete,
        special=special,
        pinned=request.pin,
        tree=tree,
        message_uuid=request.message_uuid,
        message_index=request.message_index,
        tool=request.tool,
        git=git(),
        metadata=metadata,
        event_key=request.event_key,
    )


def _differs(catalogue: Catalogue, project: int, before: Cut, after: Cut) -> bool:
    """Whether something that can be restored differs."""
    return any(old.there or new.there for _, old, new in catalogue.differences(project, before, after))


def _left_out(catalogue: Catalogue, project: int, cut: Cut) -> tuple[list[tuple[bytes, str]], list[bytes]]:
    """((path, reason) of what a cut does not hold, special files); what is unknown though in scope is so as of now.

    Ignored paths are neither, nor those of a root that was replaced: they are not there.
    """
    incomplete, special = [], []
    for path, entry in catalogue.odd(project):
        if entry.kind == Kind.SPECIAL:
            special.append(path)
        elif entry.reason not in (IGNORED_REASON, ANOTHER_ROOT):
            incomplete.append((path, entry.reason))
    incomplete += [(path, "torn: it was being written") for path, flags in catalogue.flagged(project, cut) if flags & 1]
    if cut.moment != FOREVER:
        late = dict.fromkeys(catalogue.new_after_gap(project, cut.moment, cut.seq, _LISTED), "first seen after a gap")
        late |= dict.fromkeys(catalogue.changed_late(project, cut.moment, cut.seq), "changed faster than captured")
        known = {path for path, _ in incomplete}
        incomplete += [(path, reason) for path, reason in late.items() if path not in known]
    return incomplete, special


def parent_on_branch(catalogue: Catalogue, start: str, moment: int) -> str:
    """The nearest checkpoint, from `start` towards the root, whose tree stood at or before a moment; "" if none did."""
    found = catalogue.checkpoint(start) if start else None
    while found is not None and found.timestamp > moment:
        found = catalogue.checkpoint(found.parent) if found.parent else None
    return found.id if found else ""
