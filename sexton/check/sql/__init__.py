"""The SQL of the check: runs, findings, repairs and schedule."""
