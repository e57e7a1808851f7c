"""How commands print values, as tables for people."""
