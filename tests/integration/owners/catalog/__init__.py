"""The reference catalog: its operations, its answers as an owner, and the conformance cases it is the subject of."""
