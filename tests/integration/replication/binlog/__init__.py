"""Binlogs, the journal and replicas over both databases."""
