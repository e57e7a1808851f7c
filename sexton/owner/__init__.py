"""Owners: the databases whose garbage it is."""
