"""Stores change records until their TTL, and grants backends the deletion of binlogs that no replica needs."""
