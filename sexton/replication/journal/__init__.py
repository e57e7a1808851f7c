"""Keeps one ordered log of changes per instance, which followers read and apply."""
