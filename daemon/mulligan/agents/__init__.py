"""What agents are given, and what they give: hook programs, their inputs, plugins, and the editing of their settings.

Standard library only where the client uses it.
"""
