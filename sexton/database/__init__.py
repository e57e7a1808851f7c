"""One database, PostgreSQL or SQLite; a deciding transaction promises the same on both."""
