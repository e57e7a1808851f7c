"""The live side of a check: entries that the owner's records and the marks name."""
