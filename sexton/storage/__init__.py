"""Vaults: a bucket with a prefix, or a directory; every vault is proved before it is used."""
