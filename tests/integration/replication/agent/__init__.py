"""The worker beside a storage node: a real directory, a real meta store."""
