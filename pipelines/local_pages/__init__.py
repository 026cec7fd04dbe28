"""Pages served to this machine's own browser: the guard, the server, styles and pictures."""
