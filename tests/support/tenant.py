"""An owner that shares the database with others: a role without rights, which shows a live view."""

import secrets

import psycopg

from tests.support.rig import Rig


class Tenant:
    """A role without rights of its own, with a schema of its name."""

    def __init__(self, rig: Rig) -> None:
        self.rig, self.name = rig, f"t_{secrets.token_hex(4)}"
        rig.sql(f"CREATE ROLE {self.name} LOGIN; CREATE SCHEMA {self.name} AUTHORIZATION {self.name}")

    def sql(self, statements: str) -> None:
        url = self.rig.url.replace("+psycopg", "").replace("postgres@", f"{self.name}@")
        with psycopg.connect(url, options=f"-c search_path={self.name} -c lock_timeout=200") as c:
            c.execute(statements.encode())

    def show(self, before: str, view: str) -> None:
        self.sql(f"{before}; CREATE VIEW sexton_live AS {view}")
