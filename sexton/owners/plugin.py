"""How an owner is declared: what Sexton knows of it before it asks it anything.

What owners in Sexton's database share is below.

A package outside of Sexton declares its owner as an entry point of the group ``sexton.owners``; those of Sexton are the
folders beside this file that have a ``plugin.py``. Both name a ``PLUGIN``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from sexton.database.engine import Database, first_line
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message, StrictMessage
from sexton.kernel.trust import STRICT, Trust
from sexton.operators.registry.store import Registry
from sexton.owners.port import Owner, OwnerSilent


class OwnerContext(NamedTuple):
    """What an owner is built with. ``registry`` names each instance's vaults, and the options that it was added with.

    ``live_max_age_seconds``: how old a copy of the live side may be. ``trust``: whom outgoing connections trust.
    """

    db: Database
    registry: Registry
    live_max_age_seconds: int = 3_600
    trust: Trust = STRICT


class FrontEndOptions(Message):
    """Where a front end answers that has the owner's metadata in memory, and the credentials for it: checks compare it.

    ``front_end``: where it answers, without ``/v1``; empty: there is none. ``front_end_kinds``: the kinds of records
    that it is asked for, with commas between them; ``key``: the keys of live files. ``token_file``: a bearer token.
    ``certificate_file``, ``key_file``: a client certificate in PEM. ``ca_certs``: the authorities of its certificate;
    by default those of the settings. Files are read on the machine that calls, at each call.
    """

    front_end: str = ""
    front_end_kinds: str = "key"
    token_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    ca_certs: str = ""


class CallOptions(FrontEndOptions):
    """Where a program answers, with the same credentials; ``url``: without ``/v1``."""

    url: str


@dataclass(frozen=True)
class OwnerKind:
    """A kind of marks that only instances of this owner have.

    ``retention_seconds``: from the mark until it is due, unless ``kinds.NAME.retention_seconds`` is set; it must be
    stated. ``setting``: the key under ``[recycle]`` that decides it instead; ``fixed``: no setting changes it.
    ``has_files``: otherwise its marks are records alone, and delete no object. ``limited``: its marks count against the
    limits on deletions; not where no person drops them.
    """

    name: str
    retention_seconds: int = -1
    setting: str = ""
    fixed: bool = False
    has_files: bool = True
    limited: bool = True

    def __post_init__(self) -> None:
        """Raise ``BadInput`` without a retention: marks of the kind would be due at once, or never."""
        if not self.setting and self.retention_seconds < 0:
            raise BadInput(
                f"kind {self.name!r} states no retention: declare OwnerKind({self.name!r}, retention_seconds=SECONDS), "
                f"which operators change with kinds.{self.name}.retention_seconds, or "
                f"OwnerKind({self.name!r}, setting=NAME)"
            )


class OwnerOperation(NamedTuple):
    """What programs and people do with the records of an owner that has no system of its own.

    It is a route of the API, and a command of an owner that is a part of Sexton.
    """

    name: str
    about: str
    """What it does, as a sentence."""
    order: type[StrictMessage]
    """The values that it needs; others are refused."""
    result: Any
    """The type of its result; None: it has none."""
    run: Callable[[Database, str, Any], Any]
    """Called with the database, the instance and an order."""
    reads: bool = False
    """It changes nothing."""


@dataclass(frozen=True)
class OwnerPlugin:
    """The declaration of one owner."""

    about: str
    """One line for `sexton owner list`."""
    build: Callable[[OwnerContext], Owner]
    """Called once in each process."""
    kinds: tuple[OwnerKind, ...] = ()
    after: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Kind → kinds that are deleted before it. The kinds of each mark are its own or those of the engine."""
    options: type[Message] = Message
    """Validates the options that an instance is added with: each is a text."""
    create_tables: Callable[[Database], Any] = field(default=lambda _: None)
    """Creates tables of its own, if they are missing; called when an instance is added."""
    forget_records: Callable[[Connection, str], Any] = field(default=lambda _c, _instance: None)
    """Removes what those tables have of an instance; raises ``InUse`` if its database needs the instance."""
    knows_live: bool = False
    """It knows which objects are live, without a view that the instance names."""
    key_pattern: str = ""
    """The regular expression that every key of its files matches; empty: each instance names its own."""
    operations: Callable[[], Sequence[OwnerOperation]] = tuple
    """Returns what can be done with its records."""
    no_underscore: str = ""
    """Why ids never contain ``_``; empty: each instance chooses."""


STATEMENT_SECONDS = 3_600
"""How long a part of a live side may take to be read: of a view without an index it reads every row."""


@contextmanager
def silent_on_error(what: str) -> Iterator[None]:
    """Raise ``OwnerSilent`` for an error of the database; ``what``: what then cannot be done, in words."""
    try:
        yield
    except SQLAlchemyError as e:
        raise OwnerSilent(f"{what}: {first_line(e)}") from e
