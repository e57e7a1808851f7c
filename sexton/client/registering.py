"""Register a protection in one request or in chunks; both clients send the same requests."""

import hashlib
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Required, TypedDict, Unpack

from sexton.client.api_call import CHUNK_BYTES, Steps, request
from sexton.operations.protections import Items, OnMissing, Registration
from sexton.protection.errors import Invalid
from sexton.protection.filter import Filter
from sexton.protection.model import CHUNK_ITEMS, Protection


class RegistrationOptions(TypedDict, total=False):
    """The keyword arguments of ``RegistrationRequest``.

    ``owner``: the person or team to ask about the job; ``description``: the job's purpose. ``objects``: ``VAULT/KEY``
    or URLs; long lists are read twice, so a generator is refused. ``prefixes``: every object whose name begins with one
    of them. ``filter``: instead of both, for very many objects; objects that it matches by chance are protected too.
    ``ttl_seconds``: after which the protection ends unless it is renewed; None: the server's setting. ``valid_ts``: the
    owner's watermark to wait for after the job has finished. ``on_missing``: ``fail``, or ``report``: name objects that
    are missing or being deleted, and protect the others.
    """

    owner: Required[str]
    objects: Collection[str]
    prefixes: Collection[str]
    filter: Filter | None
    ttl_seconds: int | None
    valid_ts: int | None
    description: str
    on_missing: OnMissing


class RegistrationRequest:
    """The objects that a job wants to protect. The object names are not copied."""

    def __init__(self, instance: str, job: str, **options: Unpack[RegistrationOptions]) -> None:
        """Check the arguments. No request is sent yet.

        Args:
            instance: owns the objects.
            job: the job's name, different for each run; a token of scope ``sync:JOB`` may use ``JOB`` and ``JOB:RUN``.
            options: see ``RegistrationOptions``.

        Raises:
            Invalid: there are neither names nor a filter, or both.
        """
        objects, prefixes = options.get("objects", ()), options.get("prefixes", ())
        self._filter = options.get("filter")
        if isinstance(objects, str) or isinstance(prefixes, str):
            raise Invalid("objects and prefixes are lists of names, not one name")
        if not isinstance(objects, Collection) or not isinstance(prefixes, Collection):
            raise Invalid("objects and prefixes are read more than once: give a list, not a generator")
        if bool(objects or prefixes) == (self._filter is not None):
            raise Invalid("name objects and prefixes, or give a filter: one of the two")
        self.instance, self.job, self._objects, self._prefixes = instance, job, objects, prefixes
        others = {name: value for name, value in options.items() if name not in ("objects", "prefixes", "filter")}
        self._body = Registration.model_validate(others | {"job": job})
        self.ttl_seconds = self._body.ttl_seconds

    def steps(self) -> Steps[Protection]:
        """Yield the requests of the registration, and return the protection."""
        if self._filter is not None:
            return (yield from self._send_at_once(filter=self._filter.encode()))
        first, *more = islice(chunks(self._objects, self._prefixes), 2)
        if not more:
            return (yield from self._send_at_once(objects=first.objects, prefixes=first.prefixes))
        digest = hashlib.sha256()  # of all names in their order, so that the API recognises a repeated registration
        for kind, names in (("o", self._objects), ("p", self._prefixes)):
            for name in names:
                digest.update(f"{kind}{name}\n".encode())
        yield from self._send_at_once(digest=digest.hexdigest())
        for number, items in enumerate(chunks(self._objects, self._prefixes)):
            yield request("register_chunk", instance=self.instance, job=self.job, number=number, body=items)
        protection: Protection = yield request(
            "seal", instance=self.instance, job=self.job, on_missing=self._body.on_missing, chunks=number + 1
        )
        return protection

    def _send_at_once(self, **content: object) -> Steps[Protection]:
        protection: Protection = yield request(
            "register_at_once", instance=self.instance, body=self._body.model_copy(update=content)
        )
        return protection


def chunks(objects: Iterable[str], prefixes: Iterable[str]) -> Iterator[Items]:
    """Yield the names of a registration in chunks that the API accepts; at least one chunk."""
    waiting: dict[str, list[str]] = {"objects": [], "prefixes": []}
    count = size = 0
    for kind, names in (("objects", objects), ("prefixes", prefixes)):
        for name in names:
            if count == CHUNK_ITEMS or size > CHUNK_BYTES:
                yield Items(**waiting)
                waiting, count, size = {"objects": [], "prefixes": []}, 0, 0
            waiting[kind].append(name)
            count, size = count + 1, size + len(name.encode()) + len('"",')
    yield Items(**waiting)
