"""An agent's client as the official SDK has it: it starts `mulligan mcp` and speaks to it over stdin and stdout."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anyio.from_thread import BlockingPortal, start_blocking_portal
from mcp import Client, StdioServerParameters, types
from mcp.client.stdio import stdio_client

from support.daemon import DaemonFixture


class ToolError(Exception):
    """A tool answered that it failed; `code` and `hint` are ours."""

    def __init__(self, error: dict[str, Any], text: str) -> None:
        super().__init__(error["message"])
        self.error, self.text = error, text
        self.code: str = error["code"]
        self.hint: str = error["hint"]


@dataclass
class AgentClient:
    """A connected client."""

    client: Client
    portal: BlockingPortal

    def result(self, tool: str, meta: dict[str, Any] | None = None, /, **arguments: Any) -> types.CallToolResult:
        """The whole result of a tool."""

        async def call() -> types.CallToolResult:
            return await self.client.call_tool(tool, arguments, meta=meta)  # type: ignore[arg-type]

        return self.portal.call(call)

    def call(self, tool: str, /, **arguments: Any) -> dict[str, Any]:
        """The structured content of a tool's result. Raises ToolError. `from_` stands for `from`."""
        if "from_" in arguments:
            arguments["from"] = arguments.pop("from_")
        result = self.result(tool, **arguments)
        (content,) = result.content
        assert isinstance(content, types.TextContent)
        if result.is_error:
            raise ToolError(result.structured_content["error"], content.text)
        found: dict[str, Any] = result.structured_content
        return found

    def text(self, tool: str, /, **arguments: Any) -> str:
        """What a client shows that knows no structured content."""
        (content,) = self.result(tool, **arguments).content
        assert isinstance(content, types.TextContent)
        return content.text

    def tools(self) -> list[types.Tool]:
        """What the server offers."""
        return self.portal.call(self.client.list_tools).tools

    def resources(self) -> list[types.Resource]:
        """What can be read."""
        return self.portal.call(self.client.list_resources).resources

    def read(self, uri: str) -> str:
        """The text of a resource."""
        (content,) = self.portal.call(self.client.read_resource, uri).contents
        assert isinstance(content, types.TextResourceContents)
        return content.text


@contextmanager
def agent_client(daemon: DaemonFixture, project: Path, **environ: str) -> Iterator[AgentClient]:
    """A client whose server works in a project; further keywords are added to the server's environment."""
    server = StdioServerParameters(
        command=sys.executable,
        args=["-m", "mulligan.client.main", "mcp"],
        env={**daemon.env, **environ},
        cwd=project,
    )
    with tempfile.TemporaryFile("w+") as said, start_blocking_portal() as portal:
        connecting = Client(stdio_client(server, errlog=said))
        connection = portal.wrap_async_context_manager(connecting)
        client = connection.__enter__()
        try:
            yield AgentClient(client, portal)
        finally:
            connection.__exit__(None, None, None)  # a failed test is told as it is, not in a group
        said.seek(0)
        assert "Traceback" not in (told := said.read()), told
