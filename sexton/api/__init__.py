"""The HTTP API: what operators, meta services and sync jobs ask, each with a token of its own."""
