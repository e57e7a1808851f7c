"""One file for each published incident: its cause is brought about in real rounds, and nothing needed is lost."""
