"""Tests that an operator runs against a live deployment."""
