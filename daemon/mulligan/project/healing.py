"""Healing: contents that are damaged or missing are stored again, from wherever the same bytes still are.

Nothing is believed: what is stored was held against the hash. It goes through the log as any content does, so a crash
leaves a content damaged or whole. Files are read as a capture reads them, through no link; nothing of a project and
nothing of git is written.
"""

from __future__ import annotations

import hashlib
import logging
import os
from collections import defaultdict
from collections.abc import Callable, Iterator

from mulligan.descent import open_root, parent_of
from mulligan.errors import IntegrityError, MulliganError
from mulligan.faults import point
from mulligan.journal.gitstore import LARGEST, GitStore
from mulligan.journal.reading import read_entry
from mulligan.model import RelPath
from mulligan.store import encoding
from mulligan.store.catalogue import Place
from mulligan.store.checking import Harm, harm_of
from mulligan.store.contents import Contents
from mulligan.store.copies import copies, without_header
from mulligan.store.encoding import Encoded, Encoding
from mulligan.store.needs import Stay, stays
from mulligan.store.segments import Found
from mulligan.store.store import Store

log = logging.getLogger(__name__)
_QUEUE_BYTES, _QUEUE = 4 << 20, 500
#: Files that are tried for one content: a common one stands at many paths.
_TRIED = 50
#: Commits of which git is asked, the newest of those that checkpoints name, and questions to it in all.
_HEADS, _GIT_QUESTIONS = 100, 20_000

SEGMENT, COPY, GIT = "a segment that is still open", "another copy in the store", "git"


class Healing:
    """One attempt. `contents` reads what the disk has now; `store.contents` may hold segments open that are gone."""

    def __init__(self, store: Store, contents: Contents) -> None:
        self._store, self._contents = store, contents
        self._queue: list[Encoded] = []
        self._queued: set[bytes] = set()
        self._roots = {project.id: project.path for project in store.catalogue().projects()}
        self._stays: dict[bytes, list[Stay]] = defaultdict(list)

    def heal(self, harms: dict[bytes, Harm]) -> dict[bytes, str]:
        """Store again what can be; gives from what. Whoever asks looks again afterwards: that is what counts.

        Raises MulliganError, OSError if nothing can be stored.
        """
        healed: dict[bytes, str] = {}
        # what others build on comes first, so that these are whole again of themselves
        order = sorted(harms, key=self._number)
        for stay in stays(self._store.catalogue(), order):
            self._stays[stay.hash].append(stay)
        for source in (self._from_segment, self._from_disk, self._from_copies, self._from_git):
            wanted = [digest for digest in order if digest not in healed and not self._is_whole(digest)]
            healed |= source(wanted)
            self._flush()
        return healed

    def _number(self, digest: bytes) -> int:
        place = self._store.catalogue().place(digest)
        return place.id if place is not None else 0

    def _is_whole(self, digest: bytes) -> bool:
        """Whether a content can be read, perhaps because what it builds on was stored again."""
        harm = harm_of(self._contents, digest)
        if harm is not None and not self._queued.isdisjoint((harm.culprit, digest)):
            self._flush()
            harm = harm_of(self._contents, digest)
        return harm is None

    def _each(self, wanted: list[bytes], give: Callable[[bytes], str]) -> dict[bytes, str]:
        found: dict[bytes, str] = {}
        for digest in wanted:
            if not self._is_whole(digest) and (source := give(digest)):
                found[digest] = source
        return found

    # sources

    def _from_segment(self, wanted: list[bytes]) -> dict[bytes, str]:
        def give(digest: bytes) -> str:
            try:
                data = self._store.contents.read(digest)
            except IntegrityError:
                return ""
            self._put(digest, data)
            return SEGMENT

        return self._each(wanted, give)

    def _from_disk(self, wanted: list[bytes]) -> dict[bytes, str]:
        """By recapture, from a path that has or once had these bytes."""

        def give(digest: bytes) -> str:
            tried = sorted(self._stays[digest], key=lambda stay: -stay.until_seq)  # what stands there now comes first
            for stay in tried[:_TRIED]:
                if self._recapture(stay):
                    return os.fsdecode(os.path.join(self._roots[stay.project], stay.path))
            return ""

        return self._each(wanted, give)

    def _recapture(self, stay: Stay) -> bool:
        try:
            root = open_root(self._roots[stay.project])
        except OSError:
            return False
        try:
            with parent_of(root, stay.path) as (fd, name):
                if os.lstat(name, dir_fd=fd).st_size != stay.size:
                    return False

            def read(keep: Callable[[bytes, bytes], None]) -> bool:
                found = read_entry(root, stay.path, self._store.clock.look, stay.size, keep)
                if found.torn or found.entry.hash != stay.hash:
                    return False
                if found.data is not None:
                    self._put(stay.hash, found.data)
                elif found.blocks is not None:
                    self._put_list(stay.hash, stay.size, found.blocks)
                return True

            # a large file is read twice: nothing of another one is to be stored
            return read(lambda _digest, _block: None) and (
                stay.size <= encoding.BLOCK_THRESHOLD or read(self._put_block)
            )
        except OSError:
            return False
        finally:
            os.close(root)

    def _from_copies(self, wanted: list[bytes]) -> dict[bytes, str]:
        """From records in the segments that nobody names any more, and from payloads whose header is broken."""
        found: dict[bytes, str] = {}
        for record in self._records(wanted):
            digest = record.header.hash
            if digest in found or (payload := self._decoded(record)) is None:
                continue
            if record.header.encoding == Encoding.BLOCKS:
                self._put_encoded(Encoded(digest, record.header.size, Encoding.BLOCKS, payload))
            else:
                self._put(digest, payload)
            found[digest] = COPY
        return found

    def _records(self, wanted: list[bytes]) -> Iterator[Found]:
        catalogue = self._store.catalogue()
        for digest in wanted:
            place = catalogue.place(digest)
            if place is not None and (found := without_header(self._store.pool, place, self._base(place))) is not None:
                yield found
        if wanted:
            yield from copies(self._store.pool, set(wanted))

    def _base(self, place: Place) -> bytes:
        base = self._store.catalogue().place_by_id(place.base) if place.base else None
        return base.hash if base is not None else b""

    def _decoded(self, record: Found) -> bytes | None:
        """The content of a record, or the list of its blocks, if it is what the hash says."""
        header, whole = record.header, hashlib.sha256()
        try:
            if header.encoding == Encoding.BLOCKS:
                self._flush()
                for block in encoding.block_hashes(record.payload):
                    whole.update(self._contents.read(block))
                return record.payload if whole.digest() == header.hash else None
            if header.encoding == Encoding.DELTA:
                if header.base in self._queued:
                    self._flush()
                data = encoding.apply_delta(record.payload, self._contents.read(header.base), header.size)
            else:
                data = encoding.decompress(header.encoding, record.payload, header.size)
        except IntegrityError:
            return None
        whole.update(data)
        return data if whole.digest() == header.hash else None

    def _from_git(self, wanted: list[bytes]) -> dict[bytes, str]:
        """From the repository that holds the project: its index, and the commits at which checkpoints were taken."""
        stores: dict[int, GitStore] = {}
        heads: dict[int, list[str]] = {}
        asked = 0

        def give(digest: bytes) -> str:
            nonlocal asked
            for stay in self._stays[digest][:_TRIED]:
                if not 0 < stay.size <= LARGEST or asked >= _GIT_QUESTIONS:
                    continue
                if stay.project not in stores:
                    stores[stay.project] = GitStore(self._roots[stay.project])
                    heads[stay.project] = self._heads(stay.project)
                asked += 1 + len(heads[stay.project])
                for data in stores[stay.project].versions(RelPath(stay.path), heads[stay.project], stay.size):
                    if hashlib.sha256(data).digest() == digest:
                        self._put(digest, data)
                        return GIT
            return ""

        try:
            return self._each(wanted, give)
        finally:
            for store in stores.values():
                store.close()

    def _heads(self, project: int) -> list[str]:
        made = self._store.catalogue().checkpoints("project = ?", (project,))
        return list(dict.fromkeys(each.git.head for each in made if each.git and each.git.head))[:_HEADS]

    # storing

    def _put(self, digest: bytes, data: bytes) -> None:
        """Queue a content that was held against its hash; it stands on its own, so chains end."""
        if len(data) <= encoding.BLOCK_THRESHOLD:
            self._put_encoded(encoding.encode(data, digest))
            return
        size = encoding.block_size(data[:16])
        blocks = [data[start : start + size] for start in range(0, len(data), size)]
        names = [hashlib.sha256(block).digest() for block in blocks]
        for name, block in zip(names, blocks, strict=True):
            self._put_block(name, block)
        self._put_list(digest, len(data), names)

    def _put_list(self, digest: bytes, size: int, blocks: list[bytes]) -> None:
        harm = harm_of(self._contents, digest)
        if harm is not None and harm.culprit == digest:  # else its blocks are what is missing
            self._put_encoded(encoding.block_list(digest, size, blocks))

    def _put_block(self, digest: bytes, block: bytes) -> None:
        if digest not in self._queued and harm_of(self._contents, digest) is not None:
            self._put_encoded(encoding.encode(block, digest))

    def _put_encoded(self, content: Encoded) -> None:
        if content.hash in self._queued:
            return
        self._queue.append(content)
        self._queued.add(content.hash)
        if len(self._queue) >= _QUEUE or sum(len(each.payload) for each in self._queue) >= _QUEUE_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Commit what is queued, in the lane of scans: captures do not wait for it."""
        if self._queue:
            point("repair.storing")
            self._store.log.submit([], self._queue, bulk=True).result()
            point("repair.stored")
            self._queue, self._queued = [], set()


def heal(store: Store, contents: Contents, harms: dict[bytes, Harm]) -> dict[bytes, str]:
    """As `Healing.heal`; what cannot be stored is said in the log, and stays damaged."""
    try:
        return Healing(store, contents).heal(harms)
    except (MulliganError, OSError) as error:
        log.warning("damaged contents could not be stored again: %s", error)
        return {}
