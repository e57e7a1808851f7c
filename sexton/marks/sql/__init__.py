"""Rows of marks and leases that several capabilities read."""
