"""The log of deletions: one row for each object that a round tried to delete, kept longer than the rows in SQL."""
