"""Rounds: opened under a lease, scheduled per instance, closed with a report."""
