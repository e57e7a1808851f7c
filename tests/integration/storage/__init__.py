"""Vaults over directories and buckets."""
