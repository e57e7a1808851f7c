"""A vault in a directory: no operation leaves that directory, and a missing directory is a fault."""
