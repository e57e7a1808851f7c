"""A vault of very many files with planted faults: lost files, orphans, mismatches and uploads in progress."""

import os
import random
import time
from itertools import islice
from typing import NamedTuple

from sqlalchemy import text

from tests.integration.check.conftest import LONG_AGO, Owned
from tests.support.transactions import owner_write


class PlantedFaults(NamedTuple):
    """Keys of each kind of fault."""

    lost: set[str]
    orphans: set[str]
    mismatched: set[str]
    uploads: set[str]


def plant(owned: Owned, objects: int, faults: int) -> PlantedFaults:
    """Write live files with a number of faults of each kind; return the keys of the faults. A mismatch has 1 byte."""
    keys = [f"data/t{n // 500:05}/r{n}_0.dat" for n in range(objects)]
    touched = random.Random(7).sample(keys, 3 * faults)
    lost, mismatched, moved = set(touched[:faults]), set(touched[faults : 2 * faults]), touched[2 * faults :]
    orphans = {key.replace("/r", "/x") for key in moved}
    uploads = {key.replace("/r", "/up") for key in moved}
    long_ago = time.time() - LONG_AGO
    folders = sorted({key.rpartition("/")[0] for key in keys})
    for folder in folders:
        (owned.root / folder).mkdir(parents=True)
    for key in (*keys, *orphans, *uploads):
        if key not in lost:
            file = os.open(owned.root / key, os.O_WRONLY | os.O_CREAT, 0o644)
            if key in mismatched:
                os.write(file, b"x")
            if key not in uploads:
                os.utime(file, (long_ago, long_ago))
            os.close(file)
    rows = ({"k": "rowset", "i": key, "v": "disk", "key": key, "b": 0} for key in keys)
    with owner_write(owned.db) as c:
        for chunk in iter(lambda: list(islice(rows, 10_000)), []):
            c.execute(text("INSERT INTO file VALUES (:k, :i, :v, :key, :b)"), chunk)
    return PlantedFaults(lost, orphans, mismatched, uploads)
