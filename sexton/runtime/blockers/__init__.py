"""List what blocks deletions now, for the terminal, the API and the console."""
