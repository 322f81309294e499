"""The table of methods: a name, the struct of its parameters, the function that answers.

A handler module registers its functions here when it is imported; `handlers/__init__` imports them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec


class Params(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of a method; unknown names are refused, and a project's path that no system call would take."""

    def __post_init__(self) -> None:
        if "\0" in (getattr(self, "project", "") or ""):
            raise ValueError("the project's path holds a zero byte")


P = TypeVar("P", bound=Params)
Handler = Callable[[Any, Any], dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Method:
    """One method of the protocol; `summary` is the first line of the handler's docstring."""

    name: str
    params: type[Params]
    handler: Handler
    summary: str


METHODS: dict[str, Method] = {}


def method(name: str, params: type[Params]) -> Callable[[Handler], Handler]:
    """Register a handler: it gets the call's context and the decoded parameters, and runs in a request thread."""

    def register(handler: Handler) -> Handler:
        summary = (handler.__doc__ or "").strip().splitlines()[0]
        METHODS[name] = Method(name, params, handler, summary)
        return handler

    return register
