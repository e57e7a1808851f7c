"""The journal: one ordered log per instance that followers replay."""
