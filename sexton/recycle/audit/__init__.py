"""The log of deletions: one row per object that was tried, kept longer than the rows in SQL."""
