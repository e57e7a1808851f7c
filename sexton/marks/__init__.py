"""The vocabulary of the engine: marks, references, leases, write tokens, and the reasons to keep a mark."""
