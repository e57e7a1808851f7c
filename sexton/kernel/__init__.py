"""The base of every layer: the root error, the root value, and crash points for tests."""
