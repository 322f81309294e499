"""What agents are given, and what they give: hook programs, their inputs, plugins, settings, the MCP server.

All of it talks to the daemon through the control socket. Standard library only where the client uses it.
"""
