"""Access to the HTTP API: tokens, users, scopes, and logins with a password."""
