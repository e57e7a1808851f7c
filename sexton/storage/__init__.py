"""Open vaults (a bucket with a prefix, or a directory), and prove each one before it is used."""
