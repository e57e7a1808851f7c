"""What a registration sends, one request after the other, for both clients: a generator of calls."""

import hashlib
from collections.abc import Collection, Generator
from itertools import islice
from typing import Any, Required, TypedDict

from sexton.client import calls
from sexton.client.calls import ApiCall, chunks
from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter
from sexton.protection.model import Protection
from sexton.protocol.bodies import OnMissing, Registration


class What(TypedDict, total=False):
    """Whose, and what, is to be kept: the arguments of ``RegistrationRequest``, which says what they mean."""

    owner: Required[str]
    objects: Collection[str]
    prefixes: Collection[str]
    filter: Filter | None
    ttl_seconds: int | None
    valid_ts: int | None
    description: str
    on_missing: OnMissing


class RegistrationRequest:
    """What a job wants to be kept; of its objects no copy is made."""

    def __init__(
        self,
        instance: str,
        job: str,
        *,
        owner: str,
        objects: Collection[str] = (),
        prefixes: Collection[str] = (),
        filter: Filter | None = None,
        ttl_seconds: int | None = None,
        valid_ts: int | None = None,
        description: str = "",
        on_missing: OnMissing = "fail",
    ) -> None:
        """Nothing is sent yet.

        Args:
            instance: whose objects.
            job: the job's name, another one for each run; a token of scope ``sync:JOB`` is for ``JOB`` and ``JOB:RUN``.
            owner: who is asked about it.
            objects: ``VAULT/KEY`` or URLs; read twice where there are many, so no generator.
            prefixes: everything that begins so.
            filter: instead of both, for very many objects; what it matches by chance is kept too.
            ttl_seconds: until it ends unless it is renewed; None: the server's setting.
            valid_ts: the owner's watermark to wait for once it is finished.
            description: what it is for.
            on_missing: ``fail``, or ``report``: what is being deleted or not there is named, the rest kept.

        Raises:
            Invalid: nothing is named, or a filter and names.
        """
        if isinstance(objects, str) or isinstance(prefixes, str):
            raise Invalid("objects and prefixes are lists of names, not one name")
        if not isinstance(objects, Collection) or not isinstance(prefixes, Collection):
            raise Invalid("objects and prefixes are read more than once: give a list, not a generator")
        if bool(objects or prefixes) == (filter is not None):
            raise Invalid("name objects and prefixes, or give a filter: one of the two")
        self.instance, self.job, self.ttl_seconds = instance, job, ttl_seconds
        self._objects, self._prefixes, self._filter, self._on_missing = objects, prefixes, filter, on_missing
        self._body = Registration(
            job=job,
            owner=owner,
            description=description,
            ttl_seconds=ttl_seconds,
            valid_ts=valid_ts,
            on_missing=on_missing,
        )

    def calls(self) -> Generator[ApiCall[Any], Any, Protection]:
        """Yield each request, take its answer, and return the protection."""
        if self._filter is not None:
            filter_ = self._filter.encode()
            whole: Protection = yield calls.register(self.instance, self._with(filter=filter_))
            return whole
        first, *more = islice(self._chunks(), 2)
        if not more:
            names = {"objects": first.objects, "prefixes": first.prefixes}
            small: Protection = yield calls.register(self.instance, self._with(**names))
            return small
        yield calls.register(self.instance, self._with(digest=self._digest()))
        number = 0
        for number, items in enumerate(self._chunks(), 1):
            yield calls.chunk(self.instance, self.job, number - 1, items)
        sealed: Protection = yield calls.seal(self.instance, self.job, self._on_missing, number)
        return sealed

    def _chunks(self) -> Any:
        return chunks(self._objects, self._prefixes)

    def _with(self, **more: object) -> Registration:
        return self._body.model_copy(update=more)

    def _digest(self) -> str:
        """Return a sum of all names in their order, so that the same registration is known again."""
        whole = hashlib.sha256()
        for kind, names in (("o", self._objects), ("p", self._prefixes)):
            for name in names:
                whole.update(f"{kind}{name}\n".encode())
        return whole.hexdigest()
