"""The reference catalog: its operations, its answers as an owner, and its conformance cases."""
