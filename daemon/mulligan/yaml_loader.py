"""YAML as a person means it: 1.2's booleans and numbers, no key twice, no aliases, no tags, each value with its place.

Only `mulligan.config` uses this, and imports it when there is something to read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import yaml

_TAG = "tag:yaml.org,2002:"
#: Fractions are missing on purpose: no key takes one, and as text they reach the message of the key they stand at.
_SCALARS = {
    "null": (re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""]),
    "bool": (re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF")),
    "int": (re.compile(r"(?:[-+]?[0-9]{1,30}|0o[0-7]{1,30}|0x[0-9a-fA-F]{1,30})\Z"), list("-+0123456789")),
}
_STAR = "a text that begins with * must stand in quotes (aliases are not read here)"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in the text; both count from 1."""

    line: int
    column: int


@dataclass(frozen=True, slots=True)
class Located:
    """A value and where it stands; `items` are the places of a sequence's items."""

    value: Any
    position: Position
    items: tuple[Position, ...] = ()


@dataclass(frozen=True, slots=True)
class Pair:
    """A key of the top level, where it stands, and its value."""

    key: str
    position: Position
    value: Located


class NotYamlError(Exception):
    """The text cannot be read: why, and where."""

    def __init__(self, message: str, position: Position) -> None:
        super().__init__(message)
        self.message = message
        self.position = position


class _Loader(yaml.SafeLoader):
    """SafeLoader that leaves `no`, `off`, `1:30` and dates as the text they are."""

    yaml_implicit_resolvers: dict[str, Any] = {}  # noqa: RUF012 - an attribute of PyYAML's class

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.events.AliasEvent):
            event: Any = self.peek_event()  # type: ignore[no-untyped-call]
            raise NotYamlError(_STAR, _position(event.start_mark))
        return super().compose_node(parent, index)


for _name, (_pattern, _first) in _SCALARS.items():
    _Loader.add_implicit_resolver(_TAG + _name, _pattern, _first)


def read_mapping(text: str) -> list[Pair]:
    """The pairs of the top-level mapping in their order; none for an empty text. Raises NotYamlError."""
    try:
        loader = _Loader(text)
        try:
            root = loader.get_single_node()
        finally:
            loader.dispose()
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position)
        column = error.position - (text.rfind("\n", 0, error.position) + 1)
        raise NotYamlError("a control character", Position(line + 1, column + 1)) from error
    except yaml.MarkedYAMLError as error:
        problem = _STAR if "alias" in (error.context or "") else error.problem or "not YAML"
        raise NotYamlError(problem, _position(error.problem_mark)) from error
    except RecursionError as error:
        raise NotYamlError("nested too deeply", Position(1, 1)) from error
    if root is None or (isinstance(root, yaml.ScalarNode) and _scalar(root) is None):
        return []
    if not isinstance(root, yaml.MappingNode):
        raise NotYamlError("expected lines of the form `key: value`", _position(root.start_mark))
    return _pairs(root)


def _position(mark: Any) -> Position:
    return Position(1, 1) if mark is None else Position(mark.line + 1, mark.column + 1)


def _pairs(node: yaml.MappingNode) -> list[Pair]:
    found: dict[str, Pair] = {}
    for key_node, value_node in node.value:
        position = _position(key_node.start_mark)
        if not isinstance(key_node, yaml.ScalarNode):
            raise NotYamlError("a key must be a word", position)
        key = str(key_node.value)
        if key in found:
            raise NotYamlError(f'"{key[:60]}" stands here twice (first in line {found[key].position.line})', position)
        found[key] = Pair(key, position, _located(value_node))
    return list(found.values())


def _located(node: yaml.Node) -> Located:
    position = _position(node.start_mark)
    if isinstance(node, yaml.SequenceNode):
        items = [_located(item) for item in node.value]
        return Located([item.value for item in items], position, tuple(item.position for item in items))
    if isinstance(node, yaml.MappingNode):
        return Located({pair.key: pair.value.value for pair in _pairs(node)}, position)
    if isinstance(node, yaml.ScalarNode):
        return Located(_scalar(node), position)
    raise NotYamlError("not a value", position)


def _scalar(node: yaml.ScalarNode) -> Any:
    kind, text = node.tag.removeprefix(_TAG), str(node.value)
    if kind == "str":
        return text
    if kind not in _SCALARS or not _SCALARS[kind][0].match(text):
        raise NotYamlError(f"tags ({node.tag}) are not read here", _position(node.start_mark))
    if kind == "null":
        return None
    if kind == "bool":
        return text.lower() == "true"
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    return int(text if base == 10 else text[2:], base)
