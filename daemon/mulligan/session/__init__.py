"""The session machine, the strategies and attribution: events in, commands out, no I/O."""
