"""Installing the daemon as a systemd user unit or a launchd agent."""
