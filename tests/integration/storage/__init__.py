"""Vaults over directories and buckets: what is deleted, hidden, shown again and paced, and what stores do."""
