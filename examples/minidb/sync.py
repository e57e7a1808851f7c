"""A sync job: copy a table's files to another vault while Sexton's rounds continue. It uses only Sexton's client.

A job reads for minutes the files that it listed when it began; compactions and drops make garbage of them meanwhile. So
it registers the files that it will read: no round claims them until the job is done and the owner knows of the copy.
"""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from examples.minidb.database import Corrupt, MiniDB
from examples.minidb.vault import Vault
from sexton.client import Sexton


class SyncRun(NamedTuple):
    """One run of the job; ``version``: the owner's watermark from which on the owner knows of the copy."""

    name: str
    version: int


def copy_table(
    client: Sexton,
    db: MiniDB,
    name: str,
    target: Vault,
    run: SyncRun,
    on_copied: Callable[[int], object] = int,
) -> int:
    """Copy every file of a table, dropped or not, and verify it; return how many.

    Args:
        client: with a token of scope ``sync:copy@INSTANCE``.
        db: the database of the table.
        name: of the table.
        target: the vault of the copy, with the same keys.
        run: a repeated run of the same name continues after an interruption.
        on_copied: called before each file, with the number of files copied so far.

    Raises:
        ProtectionLost: files may have been deleted before they were copied: start again, as another run.
        Corrupt: a file differs from what was written.
    """
    files = sorted(db.checksums(name).items())
    objects = [f"{vault}/{key}" for (vault, key), _ in files]
    with client.protect(
        db.instance,
        f"copy:{run.name}",
        owner="minidb",
        objects=objects,
        valid_ts=run.version,
        description=f"copies {name}",
    ) as protection:
        for copied, ((vault, key), sha256) in enumerate(files):
            protection.check()
            on_copied(copied)
            [content] = db.vault(vault).read([key])
            if hashlib.sha256(content).hexdigest() != sha256:
                raise Corrupt(f"{vault}/{key} is not what was written")
            target.write([(f"{vault}/{key}", content)])
    return len(files)
