"""Listing: keys per client CPU second, a vault's listing beside boto3's own, from a store that answers at once.

Goal: at least ten times boto3's. Both send the same requests; the store is a process of its own.
"""

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import boto3
from botocore.config import Config

from benchmarks.results import Figure, Result, at_least
from benchmarks.scratch import scratch
from sexton.runtime.embedded.child import Child
from sexton.runtime.embedded.ports import free_port, is_open
from sexton.storage.model import VaultSpec
from sexton.storage.s3.vault import S3Vault

KEYS, PAIRS = 100_000, 7
LEAST = 10.0
START_SECONDS = 30


@contextmanager
def store(keys: int) -> Iterator[str]:
    """Yield the address of a stub store with so many keys."""
    port = free_port()
    with scratch() as scratches:
        command = [sys.executable, "-m", "benchmarks.stub_store", str(port), str(keys)]
        stub = Child("stub", command, scratches.memory, os.environ)
        stub.start(lambda: is_open(port), START_SECONDS)
        try:
            yield f"http://127.0.0.1:{port}"
        finally:
            stub.kill()


def _cpu(count: Callable[[], int], keys: int) -> float:
    """Return the CPU seconds of one listing, all threads of this process."""
    began = time.process_time()
    if (found := count()) != keys:
        raise AssertionError(f"{found:,} of {keys:,} keys were listed")
    return time.process_time() - began


def run(keys: int = KEYS, pairs: int = PAIRS) -> Result:
    """Measure, in turns."""
    os.environ |= {"AWS_ACCESS_KEY_ID": "stub", "AWS_SECRET_ACCESS_KEY": "stub", "AWS_DEFAULT_REGION": "us-east-1"}
    with store(keys) as url:
        client = boto3.client("s3", endpoint_url=url, config=Config(s3={"addressing_style": "path"}))
        vault = S3Vault(VaultSpec(instance="shop", name="stub", kind="s3", location="stub"), url)
        told = client.get_paginator("list_objects_v2")

        def by_boto3() -> int:
            return sum(len(p.get("Contents", ())) for p in told.paginate(Bucket="stub", Prefix="data/"))

        def by_vault() -> int:
            return sum(len(page) for page in vault.list("data/"))

        took: dict[str, list[float]] = {"boto3": [], "vault": []}
        for pair in range(-1, pairs):  # the first is for the caches
            for name, count in sorted({"boto3": by_boto3, "vault": by_vault}.items(), reverse=bool(pair % 2)):
                seconds = _cpu(count, keys)
                if pair >= 0:
                    took[name].append(seconds)
    ratios = [b / v for b, v in zip(took["boto3"], took["vault"], strict=True)]
    rates = {name: keys / statistics.median(seconds) for name, seconds in took.items()}
    figures = [
        at_least("keys listed for a CPU second, against boto3", statistics.median(ratios), LEAST),
        Figure("keys a CPU second: the vault, boto3", f"{rates['vault']:,.0f}, {rates['boto3']:,.0f}"),
    ]
    return Result("list", {"keys": f"{keys:,}", "of 96 characters, pairs": pairs}, figures, {"cpu seconds": took})
