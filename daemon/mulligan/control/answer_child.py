"""Questions that take a processor for long are answered by a niced child: `python -m mulligan.control.answer_child`.

It gets the question on standard input, opens the store for reading, and answers with the result or an expected error.
The interpreter of the daemon stays free for captures meanwhile. Whoever asks waits for a limited time.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import msgspec

from mulligan import child, errors
from mulligan.control.answers import BlameParams, blame_answer
from mulligan.control.library import Library
from mulligan.control.search_answer import SearchParams, search_answer
from mulligan.control.usage_answer import UsageParams, usage_answer
from mulligan.errors import MulliganError
from mulligan.store.catalogue import Catalogue, connect
from mulligan.store.contents import Contents

_NICENESS = 5
_ANSWERS = {
    "blame": (BlameParams, blame_answer),
    "search": (SearchParams, search_answer),
    "usage": (UsageParams, usage_answer),
}
_KINDS = {
    kind.code: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, MulliganError)
}


class Question(msgspec.Struct, array_like=True):
    """What a child is asked."""

    directory: str
    pool: str
    catalogue: str
    project: int
    index_budget: int
    what: str
    params: bytes


class Answer(msgspec.Struct, array_like=True):
    """What a child answers: a result, or the code, message and hint of an error."""

    result: dict[str, Any]
    code: str = ""
    message: str = ""
    hint: str = ""


def answer(library: Library, what: str, params: msgspec.Struct, seconds: float) -> dict[str, Any]:
    """The answer of a child. Raises what the answering raises, and MulliganError if it takes too long or dies."""
    path = os.path.join(library.directory, "catalogue.db")
    question = Question(
        library.directory, library.contents.directory, path, library.project, library.index_budget, what,
        msgspec.msgpack.encode(params),
    )  # fmt: skip
    try:
        found = child.ask("mulligan.control.answer_child", question, Answer, seconds=seconds)
    except TimeoutError:
        raise MulliganError(f"there is no answer after {seconds:.0f} s", hint="ask for less, or more simply") from None
    except child.ChildError as error:
        raise MulliganError(f"an answering process {error}", hint="see the log") from error
    if found.code:
        raise _KINDS[found.code](found.message, hint=found.hint)
    return found.result


def main() -> int:
    """Answer one question."""
    question = child.question(Question, _NICENESS)
    catalogue = Catalogue(connect(question.catalogue))
    contents = Contents(question.pool, lambda: catalogue)
    library = Library(question.directory, catalogue, contents, question.project, question.index_budget)
    kind, function = _ANSWERS[question.what]
    try:
        found = Answer(function(library, msgspec.msgpack.decode(question.params, type=kind)))  # type: ignore[operator]
    except MulliganError as error:
        found = Answer({}, error.code, error.message, error.hint)
    child.answer(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
