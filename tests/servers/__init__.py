"""Real servers for tests: PostgreSQL, S3 and Temporal, each on loopback and a free port, stopped at the end."""
