"""A gateway to a Temporal server: it admits clients with a certificate or API key, as a cloud does, and loses answers.

It passes on each call as bytes; Temporal's SDK makes only calls of one request and one answer.
"""

import asyncio
import threading
from pathlib import Path
from typing import Any, Self

import grpc

from tests.servers.certificate import Certificate

Call = grpc.aio.ServicerContext


class TemporalGateway(grpc.GenericRpcHandler):
    """A gateway on a free port; ``address`` is its host and port, once it has been entered.

    ``lost``: method → the status that its caller receives instead of the answer, after the server has done the call.
    """

    def __init__(
        self, server: str, own: Certificate | None = None, clients: Path | None = None, api_key: str = ""
    ) -> None:
        """Prepare the gateway.

        Args:
            server: host and port of the Temporal server, which uses no TLS.
            own: the gateway's certificate; None: it uses no TLS.
            clients: the certificate of the authority that signs those of clients; None: it asks for none.
            api_key: the key that calls must bring; empty: none.
        """
        self._server, self._api_key, self.address, self.calls = server, api_key, "", 0
        self.lost: dict[str, grpc.StatusCode] = {}
        self._credentials = own and grpc.ssl_server_credentials(
            [(own.key.read_bytes(), own.cert.read_bytes())],
            root_certificates=clients and clients.read_bytes(),
            require_client_auth=clients is not None,
        )
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Return the handler of a call: it passes on the request with the caller's metadata."""
        metadata = dict(details.invocation_metadata)

        async def pass_on(request: bytes, context: Call) -> bytes:
            self.calls += 1
            if self._api_key and metadata.get("authorization") != f"Bearer {self._api_key}":
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Request unauthorized.")
            named = [(k, v) for k, v in metadata.items() if k.startswith(("temporal-", "client-"))]
            method = self._channel.unary_unary(details.method)
            try:
                answer = bytes(await method(request, metadata=named, timeout=context.time_remaining()))
            except grpc.aio.AioRpcError as e:
                context.set_trailing_metadata(tuple(e.trailing_metadata()))
                await context.abort(e.code(), e.details() or "")
            if (status := self.lost.get(details.method.rpartition("/")[2])) is not None:
                await context.abort(status, "the answer was lost")
            return answer

        return grpc.unary_unary_rpc_method_handler(pass_on)

    async def _start(self) -> None:
        self._channel = grpc.aio.insecure_channel(self._server)
        self._gateway = grpc.aio.server()
        self._gateway.add_generic_rpc_handlers((self,))
        if self._credentials is None:
            self.address = f"127.0.0.1:{self._gateway.add_insecure_port('127.0.0.1:0')}"
        else:
            self.address = f"127.0.0.1:{self._gateway.add_secure_port('127.0.0.1:0', self._credentials)}"
        await self._gateway.start()

    async def _stop(self) -> None:
        await self._gateway.stop(0)
        await self._channel.close()

    def _run(self, work: Any) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    def __enter__(self) -> Self:
        self._thread.start()
        self._run(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
