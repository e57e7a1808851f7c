"""Tokens, users and roles of the HTTP API."""
