"""What agents use: servers and programs that their clients start. Each is a client of the control socket."""
