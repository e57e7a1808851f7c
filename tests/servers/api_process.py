"""`sexton api` over a rig's database, as a process of its own."""

from pathlib import Path
from typing import Self

from sexton.operators.access import policy
from sexton.runtime.embedded.ports import free_port
from tests.servers.forked import Forked
from tests.support.rig import Rig


class ApiProcess:
    """A running `sexton api`; ``address`` is its host and port."""

    def __init__(self, rig: Rig, home: Path, **environment: str) -> None:
        """Prepare the process.

        Args:
            rig: the deployment, whose database it opens.
            home: where its log is.
            environment: settings.
        """
        self.address = ("127.0.0.1", free_port())
        self._tokens = rig.all_stores.tokens
        env = {"SEXTON_HOME": str(home), "SEXTON_DATABASE_URL": rig.url, "SEXTON_DEPLOYMENT": rig.deployment}
        self._secure = "SEXTON_API__TLS_CERT" in environment
        env |= {"SEXTON_API__LISTEN": f"127.0.0.1:{self.address[1]}"} | environment
        self._process = Forked("api", "sexton", ["api"], home, env)

    @property
    def url(self) -> str:
        return f"{'https' if self._secure else 'http'}://{self.address[0]}:{self.address[1]}"

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def token(self, scope: str) -> str:
        """Return a new token of a scope."""
        return self._tokens.create(policy.scope(scope), 1, "test")[1]

    def log(self) -> str:
        """Return what it has logged."""
        return self._process.log.read_text()

    def __enter__(self) -> Self:
        self._process.start(lambda: " listening on " in self.log())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            assert self._process.stop() is not None
        finally:
            self._process.kill()
