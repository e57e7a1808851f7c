"""Replicas of tablets: which versions each one has, what it misses, and what may therefore not go."""
