"""The addresses that executors need to reach vaults and records. Secrets come from their own environment."""

import os
from collections.abc import Sequence

from sqlalchemy.engine import make_url

from config.settings import EngineSettings
from sexton.database.engine import Database
from sexton.kernel.message import Message
from sexton.kernel.trust import STRICT, Trust
from sexton.runtime.stores import DeploymentStores
from sexton.storage.model import VaultSpec
from sexton.storage.vaults import ProvenVaults

DATABASE, LIVE_DATABASE = "SEXTON_DATABASE_URL", "SEXTON_LIVE_DATABASE_URL"


class ConnectionTarget(Message):
    """One deployment as executors reach it; the URLs of the database, and of live views' logins, without passwords."""

    deployment: str
    database_url: str
    endpoint_url: str = ""
    live_database_url: str = ""
    trust: Trust = STRICT

    def stores(self) -> DeploymentStores:
        """Open the database, and return the stores over it."""
        settings = EngineSettings(deployment=self.deployment, endpoint_url=self.endpoint_url, trust=self.trust)
        return DeploymentStores(self.database(), settings)

    def database(self, connections: int | None = None) -> Database:
        """Open the database, with the passwords of this executor's environment where that has them."""
        live_url = _with_password(self.live_database_url, LIVE_DATABASE)
        return Database.open(_with_password(self.database_url, DATABASE), connections, live_url)

    def vaults(self, specs: Sequence[VaultSpec]) -> ProvenVaults:
        """Return these vaults, each proved by its marker; the driver has compared their rounds with the database."""
        return ProvenVaults.of_specs(specs, self.deployment, self.endpoint_url, self.trust)


def _with_password(url: str, variable: str) -> str:
    """Return the URL of a variable of this process, if it is the same but for its password; else the given one."""
    own_url = os.environ.get(variable, "")
    return own_url if own_url and without_password(own_url) == url else url


def without_password(url: str) -> str:
    """Return a database's URL without its password."""
    return make_url(url).set(password=None).render_as_string(hide_password=False)
