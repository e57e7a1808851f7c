"""A sync job: copies a table's files to another place while Sexton's rounds go on. Only its client is Sexton's.

A job reads for minutes what it listed when it began, and compactions and drops make garbage of it meanwhile. So it
registers what it will read; no round claims it until the job is done and the owner knows of the copy.
"""

import hashlib
from collections.abc import Callable

from examples.minidb.database import Corrupt, MiniDB
from examples.minidb.vault import Vault
from sexton.client import Sexton


def copy_table(
    client: Sexton,
    db: MiniDB,
    name: str,
    target: Vault,
    run: str,
    version: int,
    each: Callable[[int], object] = int,
) -> int:
    """Copy every file of a table, dropped or not, and verify it; return how many.

    Args:
        client: with a token of scope ``sync:copy``.
        db: whose table it is.
        name: of the table.
        target: where the copy goes, under the same keys.
        run: the name of this run; the same one again goes on where it was cut off.
        version: the owner's watermark from which on it knows of the copy.
        each: called with how many files are copied, before each one.

    Raises:
        ProtectionLost: files may have gone before they were copied: begin again, as another run.
        Corrupt: a file is not what was written.
    """
    files = sorted(db.checksums(name).items())
    objects = [f"{vault}/{key}" for (vault, key), _ in files]
    with client.protect(
        db.instance, f"copy:{run}", owner="minidb", objects=objects, valid_ts=version, description=f"copies {name}"
    ):
        for copied, ((vault, key), sha256) in enumerate(files):
            each(copied)
            [content] = db.vault(vault).read([key])
            if hashlib.sha256(content).hexdigest() != sha256:
                raise Corrupt(f"{vault}/{key} is not what was written")
            target.write([(f"{vault}/{key}", content)])
    return len(files)
