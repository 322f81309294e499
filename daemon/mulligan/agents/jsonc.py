"""Editing JSON with comments as text: what is not edited keeps every byte, and taking out undoes putting in. Pure.

Comments and trailing commas are read as agents read them. Something is put in as the first member of an object or the
first element of an array, in the way that its container is written: on a line of its own, or not. What stood there
before is never rewritten, so whatever somebody edits in between stays as they left it.

A container that has to be made is written in one line, which tells it from one that was there and empty: when its last
member is taken out, it goes as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

Path = Sequence[str]

_GAP = re.compile(r"(?:[ \t\r\n\ufeff]|//[^\n]*|/\*.*?\*/)*", re.DOTALL)
_LINE_END = re.compile(r"[ \t]*\r?\n")
_PIECE = re.compile(r"[ \t\r\n\ufeff]|(//[^\n]*)|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_PLAIN = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?|true|false|null")
_DEEPEST = 200
_INDENT = "  "


class JsoncError(ValueError):
    """A text that is not JSON with comments, and where."""

    def __init__(self, reason: str, text: str, offset: int) -> None:
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - (text.rfind("\n", 0, offset) + 1) + 1
        super().__init__(f"line {self.line}, column {self.column}: {reason}")


class Member(NamedTuple):
    """A member of an object, or an element of an array (`key` is empty): from `start` to behind its value."""

    start: int
    key: str
    value: Node
    #: Where the comma behind it is; -1 if there is none.
    comma: int

    @property
    def end(self) -> int:
        """Behind the value."""
        return self.value.end


class Node(NamedTuple):
    """A value from `start` to `end`, with the members of a container."""

    start: int
    end: int
    kind: str
    members: tuple[Member, ...] = ()


def parse(text: str) -> Node:
    """The value of a whole text. Raises JsoncError."""
    node = _value(text, _skip(text, 0), 0)
    rest = _skip(text, node.end)
    if rest != len(text):
        raise JsoncError("nothing may follow the value", text, rest)
    return node


def load(text: str) -> Any:
    """The value that a text stands for; of members of one name the last counts. Raises JsoncError."""
    return _load(text, parse(text))


def _load(text: str, node: Node) -> Any:
    if node.kind == "{":
        return {member.key: _load(text, member.value) for member in node.members}
    if node.kind == "[":
        return [_load(text, member.value) for member in node.members]
    return json.loads(text[node.start : node.end])


def _skip(text: str, offset: int) -> int:
    found = _GAP.match(text, offset)
    end = found.end() if found else offset
    if text.startswith("/*", end):
        raise JsoncError("a comment has no end", text, end)
    return end


def _value(text: str, offset: int, depth: int) -> Node:
    if text[offset : offset + 1] in ("{", "["):
        return _container(text, offset, depth)
    found = _STRING.match(text, offset) or _PLAIN.match(text, offset)
    if found is None:
        what = repr(text[offset]) if offset < len(text) else "the end"
        raise JsoncError(f"a value was expected, and not {what}", text, offset)
    if text[offset] == '"':
        _string(text, found[0], offset)
    return Node(offset, found.end(), "")


def _string(text: str, coded: str, offset: int) -> str:
    try:
        return str(json.loads(coded))
    except ValueError:
        raise JsoncError("a string has an escape that does not exist", text, offset) from None


def _container(text: str, offset: int, depth: int) -> Node:
    if depth > _DEEPEST:
        raise JsoncError("too deep", text, offset)
    kind = text[offset]
    close = "}" if kind == "{" else "]"
    members: list[Member] = []
    place = _skip(text, offset + 1)
    while not text.startswith(close, place):
        if members and members[-1].comma < 0:
            raise JsoncError(f'"," or "{close}" was expected', text, place)
        start, key = place, ""
        if kind == "{":
            found = _STRING.match(text, place)
            if found is None:
                raise JsoncError("a name in double quotes was expected", text, place)
            key = _string(text, found[0], place)
            place = _skip(text, found.end())
            if not text.startswith(":", place):
                raise JsoncError('":" was expected', text, place)
            place = _skip(text, place + 1)
        value = _value(text, place, depth + 1)
        place = _skip(text, value.end)
        comma = place if text.startswith(",", place) else -1
        members.append(Member(start, key, value, comma))
        place = _skip(text, place + 1) if comma >= 0 else place
    return Node(offset, place + 1, kind, tuple(members))


# -- finding ----------------------------------------------------------------------------------------------------------


def get(text: str, path: Path, otherwise: Any = None) -> Any:
    """What stands at a path of names. Raises JsoncError if the text is none."""
    node = _find(parse(text), path)
    return otherwise if node is None else _load(text, node)


def _find(node: Node, path: Path) -> Node | None:
    for name in path:
        member = _member(node, name)
        if member is None:
            return None
        node = member.value
    return node


def _member(node: Node, name: str) -> Member | None:
    return next((one for one in reversed(node.members) if one.key == name), None) if node.kind == "{" else None


# -- putting in -------------------------------------------------------------------------------------------------------


def put(text: str, path: Path, value: Any) -> str:
    """Set the value at a path of names; objects on the way are made. The same value again changes nothing.

    Raises JsoncError for a text that is none, or if something on the way is no object.
    """
    node = parse(text)
    for depth, name in enumerate(path):
        if node.kind != "{":
            raise JsoncError(f'"{path[depth - 1]}" is no object' if depth else "this is no object", text, node.start)
        member = _member(node, name)
        if member is None:
            for inner in reversed(path[depth + 1 :]):
                value = {inner: value}
            return _insert(text, node, f"{_written(name)}: {_written(value)}")
        node = member.value
    if _written(_load(text, node)) == _written(value):
        return text
    return text[: node.start] + _written(value) + text[node.end :]


def add(text: str, path: Path, element: Any) -> str:
    """Put an element into the array at a path of names, unless it is there; the array is made if there is none.

    Raises JsoncError as `put` does, or if there is something else.
    """
    node = _find(parse(text), path)
    if node is None:
        return put(text, path, [element])
    if node.kind != "[":
        raise JsoncError(f'"{path[-1]}" is no array', text, node.start)
    return text if _element(text, node, element) else _insert(text, node, _written(element))


def _element(text: str, node: Node, element: Any) -> Member | None:
    return next((one for one in node.members if _written(_load(text, one.value)) == _written(element)), None)


def _written(value: Any) -> str:
    return json.dumps(value)


def _insert(text: str, node: Node, written: str) -> str:
    inside = node.start + 1
    if node.members:
        lead = text[inside : node.members[0].start]
        own_line = "\n" in lead
        before = _break(text) + _indent_of(text, node.members[0].start) if own_line else ""
        return text[:inside] + before + written + "," + text[inside:]
    if node.end - 1 > inside:  # white space or comments: nothing else begins a member right behind the bracket
        return text[:inside] + written + text[inside:]
    base, line = _indent_of(text, node.start), _break(text)
    return text[:inside] + line + base + _unit(text) + written + line + base + text[inside:]


def _break(text: str) -> str:
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def _indent_of(text: str, offset: int) -> str:
    """The white space at the beginning of a line."""
    found = re.compile(r"[ \t]*").match(text, text.rfind("\n", 0, offset) + 1)
    return found[0] if found else ""


def _unit(text: str) -> str:
    """One step of indentation, as the first indented line has it."""
    found = re.search(r"^([ \t]+)\S", text, re.MULTILINE)
    return found[1] if found else _INDENT


# -- taking out -------------------------------------------------------------------------------------------------------


def take(text: str, path: Path) -> str:
    """Take out what stands at a path of names, and the containers that `put` had made for it, if nothing else is in.

    What is not there changes nothing. Raises JsoncError for a text that is none.
    """
    nodes = [parse(text)]
    for name in path:
        member = _member(nodes[-1], name)
        if member is None:
            return text
        nodes.append(member.value)
    depth = len(path) - 1
    while depth > 0 and _made_for_one(text, nodes[depth]):
        depth -= 1
    member = _member(nodes[depth], path[depth])
    return text if member is None else _cut(text, nodes[depth], member)


def drop(text: str, path: Path, element: Any) -> str:
    """Take an element out of the array at a path of names, and the array if `add` had made it and nothing else is in.

    What is not there changes nothing. Raises JsoncError for a text that is none.
    """
    node = _find(parse(text), path)
    if node is None or node.kind != "[":
        return text
    member = _element(text, node, element)
    if member is None:
        return text
    return take(text, path) if _made_for_one(text, node) else _cut(text, node, member)


def _made_for_one(text: str, node: Node) -> bool:
    return len(node.members) == 1 and text[node.start : node.end] == _written(_load(text, node))


def _cut(text: str, node: Node, member: Member) -> str:
    place = node.members.index(member)
    if len(node.members) == 1 and member.comma < 0 and _on_lines_of_its_own(text, node, member):
        return text[: node.start + 1] + text[node.end - 1 :]
    end = member.comma + 1 if member.comma >= 0 else member.end
    start = _start_of(text, node, place, end)
    comma = node.members[place - 1].comma if place and member.comma < 0 else -1
    if comma >= 0:
        return text[:comma] + text[comma + 1 : max(start, comma + 1)] + text[end:]
    return text[:start] + text[end:]


def _on_lines_of_its_own(text: str, node: Node, member: Member) -> bool:
    """Whether this is how `put` writes into an empty container."""
    line, base = _break(text), _indent_of(text, node.start)
    before, behind = text[node.start + 1 : member.start], text[member.end : node.end - 1]
    return behind == line + base and before.startswith(line + base) and not before.strip()


def _start_of(text: str, node: Node, place: int, end: int) -> int:
    """Where a member begins with the white space before it; a comment up to the end of its line keeps that end."""
    member, gap = node.members[place], node.members[place - 1].comma + 1 if place else node.start + 1
    space = len(text[gap : member.start]) - len(text[gap : member.start].rstrip(" \t\r\n"))
    pieces = list(_PIECE.finditer(text, gap, member.start - space))
    ends_line = bool(pieces) and pieces[-1][1] is not None and not _LINE_END.match(text, end)
    start = member.start - space
    return text.index("\n", start) + 1 if ends_line else start
