"""The asynchronous client: the same requests, awaited."""

from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import httpx
from tenacity import AsyncRetrying, RetryError

from sexton.client.api_call import ApiCall
from sexton.client.methods import ApiMethods
from sexton.client.protecting import AsyncProtecting
from sexton.client.registering import RegistrationOptions, RegistrationRequest
from sexton.client.renewing import DEFAULT_TTL_SECONDS
from sexton.client.sending import (
    PATIENCE_SECONDS,
    TIMEOUT_SECONDS,
    AsyncSender,
    TemporaryAnswer,
    attempt_options,
    connection_options,
    final_answer,
    last_answer,
    request_options,
)

T = TypeVar("T")


class AsyncSexton(ApiMethods, AsyncSender):
    """The API at one address; arguments and errors are those of ``sexton.client.Sexton``.

    To replay a topic, use the synchronous client in a thread: Kafka consumers block.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        patience_seconds: float = PATIENCE_SECONDS,
        timeout_seconds: float = TIMEOUT_SECONDS,
        **http_options: Any,
    ) -> None:
        self._http = httpx.AsyncClient(**connection_options(url, token, timeout_seconds), **http_options)
        self._patience = patience_seconds

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        await self.close()

    async def send(
        self, call: ApiCall[T], patience_seconds: float | None = None, timeout_seconds: float | None = None
    ) -> T:
        patience = self._patience if patience_seconds is None else patience_seconds
        try:
            answer: httpx.Response = await AsyncRetrying(**attempt_options(call, patience))(
                self._attempt, call, timeout_seconds
            )
        except (RetryError, httpx.HTTPError, TemporaryAnswer) as error:
            answer = last_answer(call, error)
        return call.read(answer.status_code, answer.content)

    async def _attempt(self, call: ApiCall[Any], timeout_seconds: float | None) -> httpx.Response:
        return final_answer(await self._http.request(**request_options(call, timeout_seconds)))

    def protect(self, instance: str, job: str, **options: Unpack[RegistrationOptions]) -> AsyncProtecting:
        """Return a block during which the registered objects are not deleted; see ``RegistrationRequest``."""
        options.setdefault("ttl_seconds", DEFAULT_TTL_SECONDS)
        return AsyncProtecting(self, RegistrationRequest(instance, job, **options))
