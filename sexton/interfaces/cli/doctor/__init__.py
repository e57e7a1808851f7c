"""`sexton doctor`: check every dependency and say what to do about each fault."""
