"""A shell's command line as simple commands: what runs, with which words, whatever is around it.

Neither of the lexers that there are would do: the standard library's forgets which words were quoted and knows no here
documents and no substitutions, and the one parser in Python gives up a whole line over one construct that it does not
know. Only words are read here: nothing is expanded, and where the quoting cannot be followed, what came before counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple

#: Substitutions in one another are read to this depth.
_DEEPEST = 8
_PLAIN = re.compile(r"[^\s'\"\\$`;&|()<>]+")
_PLAIN_IN_QUOTES = re.compile(r"[^\"\\$`]+")
_REDIRECTION = re.compile(r"&>>|&>|>>|>\||>&|<<<|<<-|<<|<>|<&|>|<")


@dataclass(slots=True)
class Command:
    """A simple command: its words without quotes, the files behind `>`, and the here documents that it reads."""

    words: list[str] = field(default_factory=list)
    written: list[str] = field(default_factory=list)
    documents: list[str] = field(default_factory=list)


class Script(NamedTuple):
    """The simple commands in their order; not `whole` if a quote or a here document stays open, or for its depth."""

    commands: list[Command]
    whole: bool


class _Document(NamedTuple):
    """A here document that is yet to come: whose it is, and how its end is marked."""

    command: Command
    mark: str
    tabs: bool
    expands: bool


class _UnreadableError(Exception):
    """The rest of the text cannot be understood."""


def read(text: str) -> Script:
    """The simple commands of a text, those inside of substitutions before the ones that they are part of."""
    lexer = _Lexer(text, 0, 0)
    try:
        lexer.run()
    except _UnreadableError:
        lexer.end_command()
        lexer.whole = False
    return Script(lexer.commands, lexer.whole)


class _Lexer:
    """One pass over a text from some place on: to its end, or to the bracket that ends a substitution."""

    def __init__(self, text: str, at: int, depth: int) -> None:
        self._text, self.at, self._depth = text, at, depth
        self.commands: list[Command] = []
        self.whole = True
        self._command = Command()
        #: The word that is being read; None between words. `_role` is the redirection that it belongs to.
        self._word: str | None = None
        self._role = ""
        self._quotes = False
        self._awaited: list[_Document] = []

    def run(self) -> None:
        """Read on. Raises _UnreadableError."""
        brackets = 0
        while self.at < len(self._text):
            char = self._text[self.at]
            if char == ")" and self._depth and not brackets:
                self.end_command()
                self.at += 1
                return
            brackets += (char == "(") - (char == ")")
            self._step(char)
        if self._depth:
            raise _UnreadableError
        self._end_line()

    def _step(self, char: str) -> None:
        text = self._text
        if plain := _PLAIN.match(text, self.at):
            if char == "#" and self._word is None:
                end = text.find("\n", self.at)
                self.at = len(text) if end < 0 else end
            else:
                self._take(plain[0], plain.end())
        elif char == "\n":
            self.at += 1
            self._end_line()
        elif char.isspace():
            self.at += 1
            self._end_word()
        elif not text.startswith(("<(", ">("), self.at) and (found := _REDIRECTION.match(text, self.at)):
            self._redirect(found[0])
        elif char in ";&|()":
            self.at += 1
            self.end_command()
        else:
            self._quoted(char)

    def _redirect(self, sign: str) -> None:
        if self._word is not None and self._word.isdigit() and not sign.startswith("&"):
            self._word = None  # the number of a descriptor
        self._end_word()
        self._role = sign
        self.at += len(sign)

    # words and commands

    def _take(self, part: str, end: int) -> None:
        self._word = (self._word or "") + part
        self.at = end

    def _end_word(self) -> None:
        word, self._word = self._word, None
        quotes, self._quotes = self._quotes, False
        if word is None:
            return
        role, self._role = self._role, ""
        if not role:
            self._command.words.append(word)
        elif role in ("<<", "<<-"):
            self._awaited.append(_Document(self._command, word, role == "<<-", not quotes))
        elif role == "<<<":
            self._command.documents.append(word)
        elif ">" in role and not (role == ">&" and (word.isdigit() or word == "-")):
            self._command.written.append(word)

    def end_command(self) -> None:
        """A simple command has ended; without words and files it is none."""
        self._end_word()
        self._role = ""
        if self._command.words or self._command.written:
            self.commands.append(self._command)
        self._command = Command()

    def _end_line(self) -> None:
        self.end_command()
        awaited, self._awaited = self._awaited, []
        for document in awaited:
            body = self._lines_to(document.mark, document.tabs)
            document.command.documents.append(body)
            if document.expands:
                self._expand(body)

    def _lines_to(self, mark: str, tabs: bool) -> str:
        lines: list[str] = []
        while self.at < len(self._text):
            end = self._text.find("\n", self.at)
            end = len(self._text) if end < 0 else end
            line = self._text[self.at : end]
            self.at = min(end + 1, len(self._text))
            if (line.lstrip("\t") if tabs else line) == mark:
                return "\n".join(lines)
            lines.append(line)
        raise _UnreadableError

    # quotes and substitutions

    def _quoted(self, char: str) -> None:
        text, at = self._text, self.at
        self._quotes = self._quotes or char in "'\"\\"
        if char == "\\":
            following = text[at + 1 : at + 2]
            if following == "\n":
                self.at += 2
            else:
                self._take(following, at + 2)
        elif char == "'":
            end = self._find("'", at + 1)
            self._take(text[at + 1 : end], end + 1)
        elif char == '"' or text.startswith('$"', at):
            self.at = text.index('"', at) + 1
            self._double()
        elif text.startswith("$'", at):
            self._take(*self._escaped("'", at + 2))
        else:
            self._substitution()

    def _find(self, char: str, start: int) -> int:
        found = self._text.find(char, start)
        if found < 0:
            raise _UnreadableError
        return found

    def _escaped(self, end: str, at: int) -> tuple[str, int]:
        """(the text up to an end that no backslash stands before, where it goes on)."""
        parts: list[str] = []
        while (char := self._text[at : at + 1]) != end:
            if not char:
                raise _UnreadableError
            at += char == "\\"
            parts.append(self._text[at : at + 1])
            at += 1
        return "".join(parts), at + 1

    def _double(self) -> None:
        self._word = self._word or ""
        while (char := self._text[self.at : self.at + 1]) != '"':
            if not char:
                raise _UnreadableError
            if plain := _PLAIN_IN_QUOTES.match(self._text, self.at):
                self._take(plain[0], plain.end())
            elif char == "\\":
                following = self._text[self.at + 1 : self.at + 2]
                kept = following if following in '$`"\\' else "\\" + following
                self._take("" if following == "\n" else kept, self.at + 2)
            else:
                self._substitution()
        self.at += 1

    def _substitution(self) -> None:
        """Of `$…`, backquotes and `<(…)`: what runs in it is read, and a sign stands for it in the word."""
        text, at = self._text, self.at
        if text[at] == "`":
            body, end = self._escaped("`", at + 1)
            self._adopt(_Lexer(body + ")", 0, self._depth + 1))
            self._take("$()", end)
        elif text.startswith("$((", at):
            self._take("$()", self._closing(at + 1))
        elif text.startswith(("$(", "<(", ">("), at):
            self._take("$()", self._adopt(_Lexer(text, at + 2, self._depth + 1)))
        elif text.startswith("${", at):
            end = self._closing(at + 1)
            self._expand(text[at + 2 : end - 1])
            self._take(text[at:end], end)
        else:
            self._take(text[at], at + 1)

    def _adopt(self, inner: _Lexer) -> int:
        """Take the commands of what runs inside; returns where it ends."""
        if inner._depth > _DEEPEST:
            raise _UnreadableError
        try:
            inner.run()
        finally:
            self.commands += inner.commands
        self.whole = self.whole and inner.whole
        return inner.at

    def _closing(self, at: int) -> int:
        """Behind the bracket that closes the one here, with quotes and what they hold passed over."""
        text, opening = self._text, self._text[at]
        closing = ")" if opening == "(" else "}"
        deep = 0
        while at < len(text):
            char = text[at]
            if char == "'":
                at = self._find("'", at + 1)
            elif char == '"':
                at = self._escaped('"', at + 1)[1] - 1
            at += char == "\\"
            deep += (char == opening) - (char == closing)
            at += 1
            if not deep:
                return at
        raise _UnreadableError

    def _expand(self, body: str) -> None:
        """Read what runs in the substitutions of a text in which quotes mean nothing."""
        inside = _Lexer(body, 0, self._depth)
        try:
            while inside.at < len(body):
                if body[inside.at] in "$`":
                    inside._substitution()
                else:
                    inside.at += 1 + (body[inside.at] == "\\")
        except _UnreadableError:
            self.whole = False
        self.commands += inside.commands
