"""The wire values of the HTTP API, one module a subject: what the client sends and what the server answers."""
