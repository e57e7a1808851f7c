"""The audit: one row for each object that was tried, kept longer than the records of SQL."""
