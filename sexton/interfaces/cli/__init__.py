"""The `sexton` command: every task of an operator, in a terminal."""
