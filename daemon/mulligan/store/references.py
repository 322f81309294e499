"""What the store's facts name: the contents that must stay, and those that nothing needs.

Reads one state of the catalogue. Needed are the contents of every row and of every plan and outcome, the blocks of
needed block lists, and whatever a needed delta builds on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mulligan.store.catalogue import Catalogue, Place
from mulligan.store.contents import Contents
from mulligan.store.encoding import HASH_SIZE, Encoding, block_hashes


def payload_hashes(payload: bytes) -> Iterator[bytes]:
    """Whatever may be the hash of a content in a plan or an outcome: every value as long as one."""
    if not payload:
        return
    waiting: list[Any] = [msgspec.msgpack.decode(payload)]
    while waiting:
        value = waiting.pop()
        if isinstance(value, bytes) and len(value) == HASH_SIZE:
            yield value
        elif isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


@dataclass(slots=True)
class References:
    """By id: every content, those that are named (`live`), and those that only deltas build on (`bases`)."""

    places: dict[int, Place] = field(default_factory=dict)
    live: set[int] = field(default_factory=set)
    bases: set[int] = field(default_factory=set)

    @property
    def dead(self) -> list[int]:
        """What nothing needs, rising."""
        return sorted(self.places.keys() - self.live - self.bases)


def references(
    catalogue: Catalogue,
    contents: Contents,
    without: frozenset[int] = frozenset(),
    forgotten: frozenset[str] = frozenset(),
    erased: frozenset[bytes] = frozenset(),
) -> References:
    """What is needed behind the catalogue's present state, had it no rows `without` and no operation that is forgotten.

    Nothing needs the erased.
    """
    found = References({place.id: place for place in catalogue.places()})
    by_hash = {place.hash: place.id for place in found.places.values() if place.hash not in erased}
    for seq, digest in catalogue.db.execute("select seq, hash from row where kind = 1"):
        if seq not in without and (content := by_hash.get(digest)):
            found.live.add(content)
    for operation, body in catalogue.db.execute("select operation, body from payload"):
        if operation not in forgotten:
            found.live.update(by_hash[digest] for digest in payload_hashes(body) if digest in by_hash)
    for content in list(found.live):
        if found.places[content].encoding == Encoding.BLOCKS and found.places[content].segment:
            blocks = block_hashes(contents.payload(found.places[content]))
            found.live.update(by_hash[block] for block in blocks if block in by_hash)
    for content in found.live:
        while base := found.places[content].base:
            if base in found.live or base in found.bases or base not in found.places:
                break
            found.bases.add(base)
            content = base
    return found
