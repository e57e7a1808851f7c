"""Adapters to the databases and lakes whose garbage Sexton deletes."""
