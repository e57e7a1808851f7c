"""The API over a rig's database, on a free port, in threads of this process."""

import threading
import time
from typing import Any, Self

import uvicorn

from config.settings import Settings
from sexton.interfaces.api.access_log import AccessLog
from sexton.interfaces.api.app import create
from sexton.interfaces.api.http_protocol import BoundedProtocol
from sexton.interfaces.console.app import beside
from sexton.operators.access import policy
from sexton.operators.access.sql.tokens import TokenStore
from tests.support.leaks import record_output, search_directory
from tests.support.rig import DEPLOYMENT, Rig


class Api:
    """A running API server; `url` is its address, `token()` creates a token."""

    def __init__(self, rig: Rig, *, console: bool = False, **sections: object) -> None:
        settings = Settings(deployment=DEPLOYMENT, database_url=rig.url, **sections)
        self.app = create(settings, rig.db)
        self.tokens = TokenStore(rig.db)
        served = AccessLog(beside(self.app) if console else self.app)
        app = _recording(served) if search_directory() else served
        options = {"http": BoundedProtocol, "log_config": None, "access_log": False, "proxy_headers": False}
        config = uvicorn.Config(app, host="127.0.0.1", port=0, **options)
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
        until = time.monotonic() + 30
        while not self._server.started:
            assert self._thread.is_alive()
            assert time.monotonic() < until
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join(20)
        assert not self._thread.is_alive()


def _recording(app: Any) -> Any:
    """Return an app that stores every answer, metrics included, for the search for secrets."""

    async def record(scope: Any, receive: Any, send: Any) -> None:
        answers_token = False

        async def record_and_send(message: Any) -> None:
            nonlocal answers_token
            # The answer to a login, or to the creation of a token: the only ones that must contain a secret.
            is_secret = (scope.get("path"), message.get("status")) in (("/v1/token", 200), ("/v1/tokens", 201))
            answers_token = answers_token or is_secret
            if not answers_token:
                record_output("api", repr(message).encode())
            await send(message)

        await app(scope, receive, record_and_send)

    return record
