"""Read the files of the log of deletions in one location: a few at once, never all of them in memory."""

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
"""Files fetched at the same time; each has about 8,000 rows, 100 to 300 KB."""


def files(vault: Vault, folder: str) -> Iterator[AuditFile]:
    """Yield the files of the log below a folder, by day and round."""
    for page in vault.list_own(folder):
        for listed in page:
            file = naming.parse(listed.key, listed.bytes)
            if file is not None:
                yield file


def rows(vault: Vault, files: Iterable[AuditFile], names: Collection[str] = ()) -> Iterator[AuditRow]:
    """Yield the rows of files, with ``names`` only the rows of these keys or mark ids.

    Raises:
        VaultFault: the location cannot be read.
        AuditUnreadable: a file is damaged.
    """
    waiting, fetching = iter(files), deque[tuple[str, Future[bytes | None]]]()
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="audit") as pool:
        try:
            while True:
                for file in islice(waiting, AT_ONCE - len(fetching)):
                    fetching.append((file.name, pool.submit(vault.read_own, file.name)))
                if not fetching:
                    return
                name, future = fetching.popleft()
                data = future.result()
                if data is not None:  # None: its retention ended, and it was removed since it was listed
                    yield from parquet.decode(data, name, names)
        finally:
            for _, future in fetching:
                future.cancel()


def without_repeats(rows: Iterable[AuditRow]) -> Iterator[AuditRow]:
    """Yield each outcome of each object of a batch once, even if it was written again after a crash.

    Remembers 16 bytes for each row of one batch, so the rows of a batch must not be interrupted by another batch. A
    batch numbers its files again after their records were deleted, so ``seq`` does not identify them, but names do.
    """
    batch, seen = -1, set[bytes]()
    for row in rows:
        if row.batch != batch:
            batch, seen = row.batch, set()
        text = "\0".join((row.kind, row.id, row.vault, row.key, row.outcome))
        identity = hashlib.blake2b(text.encode(), digest_size=16).digest()
        if identity not in seen:
            seen.add(identity)
            yield row
