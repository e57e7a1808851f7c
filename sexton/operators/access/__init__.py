"""Access to the HTTP API: tokens, JWTs of a company's own issuer, and scopes."""
