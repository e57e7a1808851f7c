"""What an executor needs to reach vaults and records: no secret is among it, those are in its own environment."""

import os
from collections.abc import Sequence

from sqlalchemy.engine import make_url

from sexton.database.engine import Database
from sexton.kernel.errors import BadInput
from sexton.kernel.message import Message
from sexton.storage.model import VaultSpec
from sexton.storage.vaults import ProvenVaults

DATABASE = "SEXTON_DATABASE_URL"


class ConnectionTarget(Message):
    """One deployment as executors reach it; ``database_url`` without its password."""

    deployment: str
    database_url: str
    endpoint_url: str = ""

    def database(self, connections: int | None = None) -> Database:
        """Open the database, with the password of this executor's own environment where it has one."""
        own = os.environ.get(DATABASE, "")
        same = own and without_password(own) == self.database_url
        return Database.open(own if same else self.database_url, connections)

    def vaults(self, specs: Sequence[VaultSpec]) -> ProvenVaults:
        """Return these vaults, each proved by its marker; whoever sent us compared their rounds with the database."""
        known = {(spec.instance, spec.name): spec for spec in specs}
        return ProvenVaults(lambda instance, name: known[instance, name], self.deployment, self.endpoint_url)


def without_password(url: str) -> str:
    """Return a database's URL without the password in it."""
    return make_url(url).set(password=None).render_as_string(hide_password=False)


def check_reachable(database_url: str, *, local: bool) -> None:
    """Refuse a database that executors on other machines cannot open: ``BadInput``."""
    if database_url.startswith("sqlite") and not local:
        raise BadInput("executors of a cluster cannot open a SQLite file; use PostgreSQL, or spark.remote = local[*]")
