"""Tokens as rows."""
