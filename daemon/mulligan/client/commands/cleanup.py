"""`mulligan cleanup`: forget the checkpoints that a policy does not keep."""

from __future__ import annotations

import argparse

from mulligan.client.arguments import asking_options, project_option
from mulligan.client.commands.delete import take_out
from mulligan.client.context import Context

SUMMARY = "Forgets old checkpoints: by --keep and --older-than, else by the policy of the configuration."
EXAMPLES = ("mulligan cleanup --keep 20 --dry-run", "mulligan cleanup --older-than 30d")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    group = parser.add_argument_group("what goes")
    group.add_argument("--keep", metavar="N", type=int, help="all but the newest N")
    group.add_argument("--older-than", metavar="AGE", help="only what is older, such as 12h or 30d")
    asking_options(parser.add_argument_group("how"))
    project_option(parser.add_argument_group("which"))


def run(args: argparse.Namespace, context: Context) -> int:
    """Shows what would go, asks, forgets it."""
    params = {"project": context.project(args), "keep": args.keep, "older_than": args.older_than}
    words = [f"--keep {args.keep}"] if args.keep is not None else []
    words += [f"--older-than {args.older_than}"] if args.older_than else []
    again = " ".join(["mulligan cleanup", *words, "--yes"])
    return take_out("checkpoint.cleanup", params, args, context, again)
