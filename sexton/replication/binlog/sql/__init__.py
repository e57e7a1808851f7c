"""Binlogs, consumers and cuts, as rows."""
