"""Real servers for tests, each on loopback and a free port, stopped at the end of the run."""
