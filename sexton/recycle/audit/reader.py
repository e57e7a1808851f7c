"""Reads the files of the audit in one place: a few at a time, in parallel, never all of them in memory."""

import hashlib
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice

from sexton.recycle.audit import naming, parquet
from sexton.recycle.audit.model import AuditRow
from sexton.recycle.audit.naming import AuditFile
from sexton.storage.port import Vault

AT_ONCE = 8
"""Files fetched at the same time; each holds some 8,000 rows, 100 to 300 KB."""


def files(vault: Vault, folder: str) -> Iterator[AuditFile]:
    """Yield the audit's files below a folder, by day and round."""
    for page in vault.list_own(folder):
        for listed in page:
            if (found := naming.parse(listed.key, listed.bytes)) is not None:
                yield found


def rows(vault: Vault, wanted: Iterable[AuditFile], names: Collection[str] = ()) -> Iterator[AuditRow]:
    """Yield the rows of files, with ``names`` only those of these keys or mark ids.

    Raises:
        VaultFault: the place cannot be read.
        AuditUnreadable: a file is damaged.
    """
    waiting, fetched = iter(wanted), deque[tuple[str, Future[bytes | None]]]()
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="audit") as pool:
        try:
            while True:
                for file in islice(waiting, AT_ONCE - len(fetched)):
                    fetched.append((file.name, pool.submit(vault.read_own, file.name)))
                if not fetched:
                    return
                name, fetching = fetched.popleft()
                if (data := fetching.result()) is not None:  # None: it was too old, and went since it was listed
                    yield from parquet.decode(data, name, names)
        finally:
            for _, fetching in fetched:
                fetching.cancel()


def once(told: Iterable[AuditRow]) -> Iterator[AuditRow]:
    """Yield each outcome of each object of a batch once, though a crash let it be written again.

    Remembers 16 bytes for each row of one batch, so batches should come one after the other. A batch numbers its files
    anew when their records are gone, so ``seq`` does not tell them apart; their names do.
    """
    batch, seen = -1, set[bytes]()
    for row in told:
        if row.batch != batch:
            batch, seen = row.batch, set()
        text = "\0".join((row.kind, row.id, row.vault, row.key, row.outcome))
        identity = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if identity not in seen:
            seen.add(identity)
            yield row
