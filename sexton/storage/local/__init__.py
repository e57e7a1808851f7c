"""A vault in a directory."""
