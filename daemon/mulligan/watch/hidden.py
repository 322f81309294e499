"""How much the ignore rules hide: counted as directories are listed, so that a rule that hides most is told of.

Belongs to one set of rules and to one thread; a `Summary` may be read by any.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Reasons for which no rule is needed: these are never a project's own to capture, and count for nothing here.
VERSION_CONTROL, STAGE, FOREIGN = "version control", "a restore's own", "another project"
#: How reasons begin that are not a line of an ignore file, but count.
DERIVED, BESIDE = "a derived directory", "in a directory that is left out"
_NOT_COUNTED = frozenset((VERSION_CONTROL, STAGE, FOREIGN))


@dataclass(frozen=True, slots=True)
class Share:
    """Of `of` entries the lines of ignore files hide `hidden`; `rule` hides more of them than any other: `by_rule`."""

    hidden: int = 0
    of: int = 0
    rule: str = ""
    by_rule: int = 0

    @property
    def is_most(self) -> bool:
        """Whether more is hidden than is not."""
        return self.hidden * 2 > self.of


@dataclass(frozen=True, slots=True)
class Summary:
    """What was left out: `ignored` entries, and the share at the top of the tree; `tree.of` lacks what is captured."""

    ignored: int = 0
    top: Share = Share()
    tree: Share = Share()

    def most(self, captured: int) -> tuple[str, Share] | None:
        """("top" or "tree", the share) if the rules hide most of the one or of the other; of a tree with `captured`."""
        if self.top.is_most:
            return "top", self.top
        tree = Share(self.tree.hidden, self.tree.of + captured, self.tree.rule, self.tree.by_rule)
        return ("tree", tree) if tree.is_most else None


class Hidden:
    """Counts by reason for each directory, as it was when it was last listed. A directory that is hidden counts one."""

    def __init__(self) -> None:
        self._directories: dict[bytes, dict[str, int]] = {}
        self._whole: dict[str, int] = {}
        self._top = 0

    def begin(self) -> None:
        """The whole tree is listed next: what was counted in directories that are gone is forgotten."""
        self._directories.clear()
        self._whole.clear()

    def listed(self, directory: bytes, entries: int) -> None:
        """A directory is listed anew, with so many entries."""
        for reason, count in self._directories.pop(directory, {}).items():
            self._whole[reason] -= count
        if not directory:
            self._top = entries

    def add(self, directory: bytes, reason: str) -> None:
        """An entry of a directory is left out."""
        if reason not in _NOT_COUNTED:
            counts = self._directories.setdefault(directory, {})
            counts[reason] = counts.get(reason, 0) + 1
            self._whole[reason] = self._whole.get(reason, 0) + 1
        elif not directory:
            self._top -= 1

    def summary(self) -> Summary:
        """The counts by now; its cost depends on the number of rules alone."""
        ignored = sum(self._whole.values())
        top = _share(self._directories.get(b"", {}), self._top)
        return Summary(ignored, top, _share(self._whole, ignored))


def _share(counts: dict[str, int], of: int) -> Share:
    rules = {reason: count for reason, count in counts.items() if not reason.startswith((DERIVED, BESIDE))}
    rule = max(rules, key=lambda reason: rules[reason], default="")
    return Share(sum(rules.values()), of, rule, rules.get(rule, 0))
