"""Binlogs: change records that expire by TTL, and what backends still store of them."""
