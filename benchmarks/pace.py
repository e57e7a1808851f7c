"""Pace against an unknown limit: the real deleter, pacer and S3 vault delete in a store that refuses.

`python -m benchmarks.pace [SECONDS]` starts stores that take 3,500 keys/s in each first folder and refuse what goes
beyond (503 SlowDown), and a PostgreSQL for what workers share. The peer of each run is the limit itself. The store
counts from the first request on, until the last files are read; files come from memory, so that nothing but the pace is
measured.
"""

import multiprocessing
import os
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier

from sexton.database.engine import Database
from sexton.marks.model import FilePage, Lease, WriteToken
from sexton.recycle.pacing.pacer import SharedPacer
from sexton.recycle.pacing.store import PaceStore
from sexton.recycle.pipeline.active_lease import ActiveLease
from sexton.recycle.pipeline.delete import ThreadDeleter
from sexton.storage.model import PAGE_KEYS, ClaimId, KeyResult, VaultSpec
from sexton.storage.s3.vault import S3Vault
from tests.servers.limited_s3 import LimitedS3
from tests.servers.postgres import Cluster

LIMIT = 3_500
LOW_LIMIT = 1_500
"""Per folder where ten of them at ``LIMIT`` are more than this machine can sign and parse."""
SECONDS = 180.0
THREADS = 32
EVERYTHING = 2**62
"""A number above all numbers of files."""
SPEC = VaultSpec(instance="shop", name="cold", kind="s3", location="bucket")
TOKEN = WriteToken(batch=1, round=1, lease=Lease(instance="shop", job="recycle", owner="bench", epoch=1), attempt=1)


class Files:
    """The files and outcomes of a batch: pages without end, folder after folder, until time is up."""

    def __init__(self, folders: int, seconds: float) -> None:
        self.files = self.outcomes = self.batches = self
        self._folders, self._until = folders, time.monotonic() + seconds

    def ensure_latest(self, _token: WriteToken, _files: Sequence[int]) -> None:
        """Do nothing: no file was tried before."""

    def last_claim(self, _token: WriteToken) -> ClaimId:
        return ClaimId(1, 1)

    def last_file(self, _token: WriteToken) -> int:
        """There is always another."""
        return EVERYTHING

    def pages(self, _token: WriteToken, after: int = 0, _to: int = 0) -> Sequence[FilePage]:
        if time.monotonic() >= self._until:
            return []
        numbers = [range(start, start + PAGE_KEYS) for start in range(after + 1, after + 8 * PAGE_KEYS, PAGE_KEYS)]
        return [FilePage("cold", list(n), [self._key(n.start // PAGE_KEYS, seq) for seq in n]) for n in numbers]

    def _key(self, page: int, seq: int) -> str:
        return f"{page % self._folders:02}/tablet-{page:08}/rowset-0200000000001a2b3c4d5e6f_{seq:010}.dat"

    def record(self, token: WriteToken, page: FilePage, results: Sequence[KeyResult]) -> None:
        """Forget it: a throttled key is tried again by the deletion itself."""


class Vaults:
    """One vault, taken for proved."""

    def __init__(self, url: str) -> None:
        self._vault = S3Vault(SPEC, url)

    def get(self, _instance: str, _name: str) -> S3Vault:
        return self._vault

    def announce(self, instance: str, name: str, round_: int, run: str) -> None:
        """Nothing to write."""

    def name_claim(self, instance: str, name: str, claim: ClaimId) -> None:
        """Nothing to write."""

    def confirm(self, instance: str, name: str) -> None:
        """Nothing to prove."""


class Uncontested:
    """A lease that no other worker takes, and a gate that is open."""

    def renew(self, lease: Lease) -> None:
        """Always ours."""

    def check(self, _instance: str) -> frozenset[str]:
        return frozenset()


def _work(url: str, store_url: str, folders: int, seconds: float, ready: Barrier, used: "Queue[float]") -> None:
    """Delete as one worker process, as soon as all are ready; say how many CPU seconds it took."""
    db = Database.open(url)
    pacer = SharedPacer(PaceStore(db), lambda *_: SPEC, store_url)
    active_lease = ActiveLease(Uncontested(), Uncontested(), TOKEN.lease, lambda: None)  # type: ignore[arg-type]
    ready.wait()
    cpu = time.process_time()
    deleter = ThreadDeleter(Files(folders, seconds), Vaults(store_url), THREADS, pacer)  # type: ignore[arg-type]
    with deleter.begin(TOKEN, active_lease) as deletion:
        deletion.release_up_to(EVERYTHING)
        deletion.finish()
    used.put(time.process_time() - cpu)
    db.close()


def run(folders: int, limit: int, seconds: float, workers: int = 1) -> float:
    """Delete for so long; print and return the keys per second that the store took."""
    spawn = multiprocessing.get_context("spawn")
    with LimitedS3(limit) as store, ExitStack() as stack:
        cluster = Cluster()
        stack.callback(cluster.stop)
        url = cluster.new_database()
        ready, cpu = spawn.Barrier(workers + 1), spawn.Queue()
        arguments = (url, store.url, folders, seconds, ready, cpu)
        processes = [spawn.Process(target=_work, args=arguments) for _ in range(workers)]
        for process in processes:
            process.start()
        ready.wait()
        began = time.monotonic()
        time.sleep(seconds)  # as long as every folder has files: what was read ahead is deleted afterwards
        counts, took = store.counts(), time.monotonic() - began
        for process in processes:
            process.join()
        if any(process.exitcode for process in processes):
            raise AssertionError("a worker failed; see above")
        used = sum(cpu.get() for _ in processes) / took
    rate, requests = sum(counts.keys.values()) / took, counts.taken + counts.refused
    least = min(counts.keys.values()) / took
    print(
        f"{folders} prefixes x {limit:,} keys/s, {workers} workers, {took:.0f} s: {rate:,.0f} keys/s, "
        f"{rate / (limit * folders):.3f} of the limit (slowest prefix {least / limit:.3f}), "
        f"{counts.refused} of {requests:,} requests throttled ({100 * counts.refused / requests:.2f} %), "
        f"{sum(counts.keys.values()) / counts.taken:.0f} keys a request, {used:.2f} cores",
        flush=True,
    )
    return rate


def main() -> None:
    """Measure and print."""
    os.environ.update(AWS_ACCESS_KEY_ID="bench", AWS_SECRET_ACCESS_KEY="bench")
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else SECONDS
    one = run(1, LIMIT, seconds)
    run(1, LIMIT, seconds, workers=3)
    ten = run(10, LIMIT, seconds, workers=os.cpu_count() or 1)
    print(f"ten prefixes take {ten / one:.2f} x what one takes")
    low, tenfold = run(1, LOW_LIMIT, seconds), run(10, LOW_LIMIT, seconds)
    print(f"at {LOW_LIMIT} keys/s each, which this machine can send: {tenfold / low:.2f} x")


if __name__ == "__main__":
    main()
