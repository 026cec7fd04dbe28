"""Pages that a server of this machine shows to its own browser: the guard, the server, style and pictures."""
