"""Vaults: the places objects live in, a bucket with a prefix or a directory."""
