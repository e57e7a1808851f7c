"""`sexton doctor`: check every dependency, and print what to do about each fault."""
