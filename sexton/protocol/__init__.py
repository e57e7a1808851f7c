"""The wire values of the HTTP API: what the client sends and what the server answers."""
