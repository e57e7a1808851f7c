"""The HTTP API: every request carries a token and is answered with JSON or an RFC 9457 problem."""
