"""The API over a rig's database, on a free port, in threads of this process."""

import functools
import threading
import time
from typing import Self

import uvicorn

from config.settings import Settings
from sexton.interfaces.api import app
from sexton.interfaces.api.serve import AccessLog
from sexton.interfaces.console.app import beside
from sexton.operators.access import policy
from tests.support.rig import Rig

app.operations.router = functools.cache(app.operations.router)  # half of what a server's start takes


class Api:
    """A running API server; `url` is its address, `token()` creates a token."""

    def __init__(self, rig: Rig, *, console: bool = False, **sections: object) -> None:
        settings = Settings(deployment=rig.deployment, database_url=rig.url, **sections)
        self.app = app.create(settings, rig.db)
        self.tokens = rig.all_stores.tokens
        served = AccessLog(beside(self.app) if console else self.app)
        options = {"http": "h11", "log_config": None, "access_log": False, "proxy_headers": False}
        config = uvicorn.Config(served, host="127.0.0.1", port=0, **options)
        self._server, self._socket = uvicorn.Server(config), config.bind_socket()
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],), daemon=True)

    @property
    def address(self) -> tuple[str, int]:
        return ("127.0.0.1", self._socket.getsockname()[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.address[1]}"

    def token(self, scope: str, days: int = 1) -> str:
        """Return a new token of a scope."""
        return self.tokens.create(policy.scope(scope), days, "test")[1]

    def __enter__(self) -> Self:
        self._thread.start()
        while not self._server.started:
            assert self._thread.is_alive()
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()
