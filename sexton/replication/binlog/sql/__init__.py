"""Stores configuration, records, consumers and cuts of binlogs in SQL."""
