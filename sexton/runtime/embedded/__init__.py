"""Run the embedded stack: Temporal, S3 and workers as child processes on loopback, without configuration."""
