"""The registry of operations."""
