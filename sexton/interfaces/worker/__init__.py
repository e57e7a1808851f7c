"""Compose workers: settings → clients → adapters → a Temporal worker. One file per role, and the process of all."""
