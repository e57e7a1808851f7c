"""Tokens, users and failed logins as rows."""
