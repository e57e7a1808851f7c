"""The HTTP API and its clients, over real sockets."""
