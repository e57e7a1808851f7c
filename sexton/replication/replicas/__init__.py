"""Replicas of tablets: which versions each has, which it lacks, and what must therefore be retained."""
