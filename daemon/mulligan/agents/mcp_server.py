"""`mulligan mcp`: the tools and resources for agents over the Model Context Protocol, on stdin and stdout.

The only module that knows the SDK. Each request has a thread and a connection to the daemon of its own, so a daemon
that was restarted is found again. What the daemon refuses is the result of a tool, with the next step, and no fault.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import anyio.to_thread
from jsonschema import Draft202012Validator
from mcp import MCPError, types
from mcp.server import Server, ServerRequestContext
from mcp.server.stdio import stdio_server

from mulligan import __version__
from mulligan.agents.resources import RESOURCES
from mulligan.agents.seat import Seat, take_seat
from mulligan.agents.tool import Tool, as_text, cut
from mulligan.agents.tools import TOOLS
from mulligan.client.render.text import visible
from mulligan.errors import MulliganError

log = logging.getLogger(__name__)
#: Where Claude Code says which of its calls a request is.
_CALL_KEY = "claudecode/toolUseId"
_INSTRUCTIONS = (
    "mulligan keeps every version of this project's files, and what you are doing. Save your task's state with"
    " state_save after each step; after a compaction load it with state_load. Checkpoints are taken automatically."
    " restore, revert, undo and state_clear change nothing until they are called with the token of the plan they gave."
)
_Context = ServerRequestContext[Any, Any]


def serve(environ: Mapping[str, str] | None = None, socket: str | None = None) -> None:
    """Answer on stdin and stdout until stdin ends."""
    anyio.run(_serve, make_server(take_seat(os.environ if environ is None else environ, socket)))


async def _serve(server: Server[Any]) -> None:
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


def make_server(seat: Seat) -> Server[Any]:
    """The server of one client."""

    async def list_tools(_context: _Context, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_described(tool) for tool in TOOLS.values()])

    async def call_tool(_context: _Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f'no tool "{cut(params.name, 80)}"')
        call = (params.meta or {}).get(_CALL_KEY)
        asking = replace(seat, call_id=call if isinstance(call, str) else "", tool=tool.name)
        return await anyio.to_thread.run_sync(_answer, tool, asking, params.arguments or {})

    async def list_resources(
        _context: _Context, _params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        return types.ListResourcesResult(
            resources=[
                types.Resource(uri=uri, name=one.name, description=one.description, mime_type="application/json")
                for uri, one in RESOURCES.items()
            ]
        )

    async def read_resource(_context: _Context, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
        resource = RESOURCES.get(str(params.uri))
        if resource is None:
            raise MCPError(types.INVALID_PARAMS, f"no resource {cut(params.uri, 200)}")
        try:
            found = await anyio.to_thread.run_sync(resource.read, seat)
        except MulliganError as error:
            raise MCPError(types.INTERNAL_ERROR, " - ".join(filter(None, (error.message, error.hint)))) from error
        content = json.dumps(found, ensure_ascii=False)
        return types.ReadResourceResult(
            contents=[types.TextResourceContents(uri=params.uri, mime_type="application/json", text=content)]
        )

    return Server(
        "mulligan",
        version=__version__,
        instructions=_INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
    )


def _described(tool: Tool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            read_only_hint=tool.read_only, destructive_hint=tool.destructive, open_world_hint=False
        ),
    )


def _answer(tool: Tool, seat: Seat, arguments: dict[str, Any]) -> types.CallToolResult:
    """The result of a call; every failure is one that the agent can read."""
    wrong = next(Draft202012Validator(tool.schema).iter_errors(arguments), None)
    if wrong is not None:
        where = ".".join(map(str, wrong.absolute_path))
        message = f"{where}: {wrong.message}" if where else wrong.message
        known = ", ".join(tool.parameters) or "no arguments"
        return failed({"code": "usage", "message": cut(message), "hint": f"{tool.name} takes {known}"})
    try:
        found = tool.run(seat, arguments)
    except MulliganError as error:
        candidates = {"candidates": error.data["candidates"][:10]} if "candidates" in error.data else {}
        return failed({"code": error.code, "message": error.message, "hint": error.hint, **candidates})
    except Exception:
        log.exception("%s failed", tool.name)
        return failed({"code": "failed", "message": f"{tool.name} failed inside of mulligan", "hint": "see its stderr"})
    return answered(found)


def answered(found: dict[str, Any]) -> types.CallToolResult:
    """The result of a call: exactly what was found, and as text that a terminal may show."""
    text = visible(as_text(found), keep="\n\t")
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content=found, is_error=False
    )


def failed(error: dict[str, Any]) -> types.CallToolResult:
    """The result of a call that failed, with its code, reason and next step."""
    text = "\n".join(filter(None, (error["message"], error["hint"])))
    text = visible(text, keep="\n\t")
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=text)], structured_content={"error": error}, is_error=True
    )
