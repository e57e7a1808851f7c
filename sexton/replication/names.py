"""Check the ids of databases, tables, consumers, backends and tablets before they reach a statement. Pure."""

from sexton.database.contract_errors import check_text
from sexton.kernel.errors import BadInput

MAX_NAME_CHARACTERS = 128


def check_names(name: str, *others: str) -> None:
    """Check one name that is required, and others that may be empty.

    Raises:
        BadInput: a name is not printable or longer than 128 characters, or the required one is empty.
    """
    check_text(name, *others)
    for text in (name, *others):
        if len(text) > MAX_NAME_CHARACTERS or not text.isprintable():
            raise BadInput(f"{text[:40]!r} is not an id: use up to {MAX_NAME_CHARACTERS} printable characters")
    if not name:
        raise BadInput("a required name is empty: give the id of the database, consumer, backend or tablet")
