"""Binlogs: records of what changed, which expire, and what backends hold of them (``docs/binlog-integration.md``)."""
