"""Holds: orders that block deletion until they end."""
