"""Helpers that several tiers of tests share."""
