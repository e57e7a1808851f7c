"""The embedded stack: Temporal, S3 and workers as child processes on loopback."""
