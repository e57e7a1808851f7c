"""The registry of instances and their vaults."""
