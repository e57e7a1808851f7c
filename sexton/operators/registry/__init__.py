"""Registered instances and their vaults."""
