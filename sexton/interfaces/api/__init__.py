"""The HTTP API: every request carries a token; every answer is JSON or an RFC 9457 problem document."""
