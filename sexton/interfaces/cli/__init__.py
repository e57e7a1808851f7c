"""The `sexton` command."""
