"""The rows of the pipeline; every write is conditional on the write token."""
