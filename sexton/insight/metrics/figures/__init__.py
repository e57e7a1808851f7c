"""Read the figures of a scrape from SQL, in a fixed number of statements."""
