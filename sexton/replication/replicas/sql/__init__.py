"""Stores placements and reports of replicas in SQL, and blocks deletion of versions that a replica still needs."""
