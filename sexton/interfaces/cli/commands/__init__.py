"""The commands of `sexton`, one module per command or group of commands."""
