"""``make demo``: a small database makes garbage, Sexton deletes it, and plain S3 listings check every number."""
