"""Stores, owners, keepers, the API and commands over real databases and stores."""
