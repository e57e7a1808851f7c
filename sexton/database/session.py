"""The settings of Sexton's own sessions on PostgreSQL, and of those that read owners' live views."""

LOCK_SECONDS = 5
"""How long a statement waits for an owner's lock; a round must not hang on a transaction that was left open."""
SEARCH_PATH = "pg_catalog,pg_temp"
"""Sexton names the schema of all that it uses. By default an operator or function in ``public`` that fits the types of
a query better than PostgreSQL's own would run with the rights of Sexton's role."""
OPTIONS = (
    f"-c synchronous_commit=on -c application_name=sexton -c lock_timeout={LOCK_SECONDS * 1000} "
    f"-c search_path={SEARCH_PATH}"
)
MOST_MESSAGE = 500
"""Characters of a driver's message that are kept: a query of an owner's view decides how long it is."""
