"""`mulligan mcp`: the server that agents' clients start."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from mulligan.client.context import Context
from mulligan.errors import MulliganError

SUMMARY = "Serves tools for agents over the Model Context Protocol, on stdin and stdout; an agent's client starts it."
EXAMPLES = ("claude mcp add mulligan -- mulligan mcp", "MULLIGAN_SESSION=build-17 mulligan mcp")


def configure(_parser: argparse.ArgumentParser) -> None:
    """There is nothing to choose: project and session are the client's."""


def run(_args: argparse.Namespace, context: Context) -> int:
    """Serves until stdin ends."""
    if find_spec("mcp") is None or find_spec("jsonschema") is None:
        raise MulliganError(f"mulligan mcp needs the official SDK: {sys.executable} -m pip install 'mulligan[mcp]'")
    from mulligan.agents.mcp_server import serve  # noqa: PLC0415 - the SDK takes half a second

    serve(context.environ, context.options.socket)
    return 0
