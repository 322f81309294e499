"""The command line: global options anywhere, one parser for the named command, help in our own shape."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from mulligan.errors import UsageError

_FLAGS = {"--json": "json", "-q": "quiet", "--quiet": "quiet", "-v": "verbose", "--verbose": "verbose"}
_VALUES = {"--socket": "socket", "--color": "color"}
COLORS = ("auto", "always", "never")


#: What paths are, wherever many may be given.
PATHS_HELP = "only these files and directories, or a quoted pattern; as for git, * stands for slashes too"


class Command(NamedTuple):
    """What a command says about itself, and what it does."""

    summary: str
    examples: tuple[str, ...]
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, Any], int]


class Options:
    """The global options."""

    __slots__ = ("color", "json", "quiet", "socket", "verbose")

    def __init__(self) -> None:
        self.json = False
        self.socket: str | None = None
        self.color = "auto"
        self.quiet = False
        self.verbose = False

    def set(self, name: str, value: Any) -> None:
        """Sets one by its name. Raises UsageError for a colour mode that does not exist."""
        if name == "color" and value not in COLORS:
            raise UsageError(f'no colour mode "{value}"', hint="--color auto, always or never")
        setattr(self, name, value)

    def update(self, args: argparse.Namespace) -> None:
        """Takes over what was given behind the command."""
        for name in self.__slots__:
            if hasattr(args, name):
                self.set(name, getattr(args, name))


def leading(argv: Sequence[str], options: Options) -> list[str]:
    """Takes the global options off the front; what is left begins with a word, an option of the command, or is empty.

    Raises UsageError for a value that is missing.
    """
    rest = list(argv)
    while rest and rest[0].startswith("-"):
        name, equals, value = rest[0].partition("=")
        if rest[0] in _FLAGS:
            options.set(_FLAGS[rest.pop(0)], True)
        elif name in _VALUES:
            if not equals and len(rest) < 2:
                raise UsageError(f"{name} needs a value", hint="mulligan --help")
            rest.pop(0)
            options.set(_VALUES[name], value if equals else rest.pop(0))
        else:
            break
    return rest


def asks_for_json(argv: Sequence[str]) -> bool:
    """Whether errors of the command line itself are to be JSON."""
    words = list(argv)
    return "--json" in (words[: words.index("--")] if "--" in words else words)


#: The width for something that is no terminal: nobody's lines wrap there, but a column must end somewhere.
PIPE_WIDTH = 160


def columns(descriptor: int = 1, otherwise: int = PIPE_WIDTH) -> int:
    """The width to write for: COLUMNS, the terminal's, else `otherwise`."""
    try:
        if width := int(os.environ.get("COLUMNS", "0")):
            return max(width, 20)
    except ValueError:
        pass
    try:
        return max(os.get_terminal_size(descriptor).columns, 20)
    except OSError:
        return otherwise


def wrapped(text: str, indent: int = 0) -> str:
    """A sentence of a help text within the terminal; the lines behind the first begin at `indent`."""
    from textwrap import fill  # noqa: PLC0415 - for help texts alone, as argparse does it

    width = min(columns(otherwise=80), 100)
    return fill(text, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


class _Formatter(argparse.RawDescriptionHelpFormatter):
    """Help within the terminal; a width given here keeps argparse from importing shutil."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=min(columns(otherwise=80), 100) - 2)


class Parser(argparse.ArgumentParser):
    """A parser whose complaints are ours, with help in the order: sentence, usage, examples, options."""

    def __init__(self, prog: str, command: Command) -> None:
        super().__init__(
            prog=prog, description=command.summary, allow_abbrev=False, add_help=False, formatter_class=_Formatter
        )
        self._examples = command.examples
        command.configure(self)
        group = self.add_argument_group("everywhere")
        hidden = argparse.SUPPRESS
        group.add_argument("--json", action="store_true", default=hidden, help="one JSON object instead of text")
        group.add_argument("--socket", metavar="PATH", default=hidden, help="the daemon's socket")
        group.add_argument("--color", choices=COLORS, default=hidden, help="colour: auto, always or never")
        group.add_argument("-q", "--quiet", action="store_true", default=hidden, help="only results and errors")
        group.add_argument("-v", "--verbose", action="store_true", default=hidden, help="say more")
        group.add_argument("-h", "--help", action="help", help="show this and end")
        group.add_argument("--version", action="store_true", default=hidden, help="show the version and end")

    def error(self, message: str) -> NoReturn:
        """Raises UsageError instead of printing the whole usage."""
        # `read` puts the dashes there
        raise UsageError(message.replace("arguments: -- ", "arguments: "), hint=f"{self.prog} --help")

    def format_help(self) -> str:
        """One sentence, usage, two examples, options in groups."""
        formatter = self._get_formatter()
        formatter.add_text(wrapped(self.description or ""))
        formatter.add_usage(self.usage, self._actions, self._mutually_exclusive_groups, prefix="usage: ")
        if self._examples:
            formatter.add_text("examples:\n" + "\n".join(f"  {example}" for example in self._examples))
        for group in self._action_groups:
            formatter.start_section("arguments" if group.title == "positional arguments" else group.title)
            formatter.add_text(group.description)
            formatter.add_arguments(group._group_actions)
            formatter.end_section()
        return formatter.format_help()

    def read(self, argv: Sequence[str]) -> argparse.Namespace:
        """Parses words and options in any order; everything behind `--` is a word, and also stands in `dashed`.

        Raises UsageError; SystemExit(0) after help was printed. Options are read first, with the words left aside:
        argparse alone does not find a second run of words behind an option.
        """
        words = list(argv)
        split = words.index("--") if "--" in words else len(words)
        head, tail = words[:split], words[split + 1 :]
        if "-h" in head or "--help" in head:
            self.print_help()
            raise SystemExit(0)
        if "--version" in head:
            return argparse.Namespace(version=True)
        positionals = self._get_positional_actions()
        saved = [(action, action.nargs, action.default) for action in positionals]
        for action in positionals:
            action.nargs, action.default = argparse.SUPPRESS, argparse.SUPPRESS
        try:
            args, free = self.parse_known_args(head)
        finally:
            for action, nargs, default in saved:
                action.nargs, action.default = nargs, default
        for action in positionals:
            if getattr(args, action.dest, None) == []:
                delattr(args, action.dest)
        for word in free:
            if word.startswith("-") and word != "-":
                self.error(f"no option {word}")
        args.dashed = tail if split < len(words) else None
        free += tail
        return self.parse_args(["--", *free] if free else [], args)


def project_option(parser: argparse._ActionsContainer) -> None:
    """--project, as every command about a project has it."""
    parser.add_argument("--project", metavar="PATH", help="the project (default: the one that holds this directory)")


def session_option(parser: argparse._ActionsContainer) -> None:
    """--session, as every command about a session has it."""
    parser.add_argument("--session", metavar="ID", help="the session, or a unique prefix (default: the latest one)")


def asking_options(parser: argparse._ActionsContainer) -> None:
    """--dry-run and --yes, as every command that asks has them."""
    parser.add_argument("--dry-run", action="store_true", help="show the plan and change nothing")
    parser.add_argument("-y", "--yes", action="store_true", help="do it without asking")


def nearest(word: str, words: Sequence[str]) -> list[str]:
    """The words that are like a mistyped one, likest first."""
    import difflib  # noqa: PLC0415 - only after a mistake

    return difflib.get_close_matches(word, words, n=3, cutoff=0.5)
