"""Protections as rows, and the keeper that applies them to a claim."""
