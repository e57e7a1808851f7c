"""What Sexton was told to clean: instances and their vaults."""
