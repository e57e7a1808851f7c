"""The live side of a check: the entries that the owner's records and the marks name."""
