"""Leases: who works on an instance."""
