"""The tools, by their names: one module for each kind."""

from mulligan.agents.tool import Tool
from mulligan.agents.tools import changes, checkpoints, files, state

TOOLS: dict[str, Tool] = {tool.name: tool for module in (state, checkpoints, files, changes) for tool in module.TOOLS}
