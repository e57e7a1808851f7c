"""What an S3 client costs beside a store that answers at once: a vault, plain boto3 and a hand-written floor, in turns.

All three list the same keys, delete the same keys, and send the same small requests. The floor is the least that one
could write: `http.client`, a signature, a regular expression, and nothing that would notice a lie of the store.
"""

import base64
import hashlib
import hmac
import http.client
import os
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from urllib.parse import quote, unquote_plus
from xml.sax.saxutils import escape

import boto3
from botocore.config import Config

from benchmarks.results import Figure, Result, at_most
from benchmarks.scratch import scratch
from benchmarks.stub_store import FOLDERS, key
from sexton.kernel.process import search_cycles_rarely
from sexton.runtime.embedded.child import Child
from sexton.runtime.embedded.ports import free_port, is_open
from sexton.storage.model import PAGE_KEYS, KeyOutcome, VaultSpec
from sexton.storage.s3.vault import S3Vault

KEYS, PAIRS = 100_000, 7
GOALS = {"list": 0.04, "delete": 0.25, "small": 0.2}
"""CPU of a vault as a share of boto3's, for each key listed, each object deleted, each listing of one object."""
MOST_OF_FLOOR = 2.0
REQUESTS = 300
START_SECONDS = 30
LOGIN, REGION, BUCKET = "stub", "us-east-1", "stub"
OBJECT = re.compile(
    r"<Contents><Key>([^<]*)</Key><LastModified>([^<]*)</LastModified><ETag>([^<]*)</ETag><Size>(\d+)</Size>"
)
TOKEN = re.compile(r"<NextContinuationToken>([^<]*)<")
Work = Callable[[], int]
"""Does the work of one contender, and returns how many keys it was told of."""


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


class Floor:
    """Signed requests over one kept connection."""

    def __init__(self, url: str) -> None:
        self.host = url.removeprefix("http://")
        self.connection = http.client.HTTPConnection(self.host)
        self.day, self.signing_key = "", b""

    def _send(self, method: str, query: str, body: bytes = b"") -> bytes:
        at, content = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime()), hashlib.sha256(body).hexdigest()
        day = at[:8]
        if day != self.day:
            self.signing_key = f"AWS4{LOGIN}".encode()
            for part in (day, REGION, "s3", "aws4_request"):
                self.signing_key = hmac.digest(self.signing_key, part.encode(), "sha256")
            self.day = day
        scope, signed = f"{day}/{REGION}/s3/aws4_request", "host;x-amz-content-sha256;x-amz-date"
        headers = f"host:{self.host}\nx-amz-content-sha256:{content}\nx-amz-date:{at}\n"
        request = f"{method}\n/{BUCKET}\n{query}\n{headers}\n{signed}\n{content}"
        text = f"AWS4-HMAC-SHA256\n{at}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
        signature = hmac.digest(self.signing_key, text.encode(), "sha256").hex()
        login = f"AWS4-HMAC-SHA256 Credential={LOGIN}/{scope}, SignedHeaders={signed}, Signature={signature}"
        sent = {"X-Amz-Date": at, "X-Amz-Content-SHA256": content, "Authorization": login}
        if body:
            sent["Content-MD5"] = base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode()
        self.connection.request(method, f"/{BUCKET}?{query}", body or None, sent)
        reply = self.connection.getresponse()
        if reply.status != 200:
            raise AssertionError(f"the store answers {reply.status}")
        return reply.read()

    def list(self, prefix: str) -> int:
        """Return how many objects are below a prefix."""
        objects, token = 0, ""
        while True:
            query = f"encoding-type=url&list-type=2&max-keys={PAGE_KEYS}&prefix={quote(prefix, safe='')}"
            page = self._send("GET", f"continuation-token={quote(token, safe='')}&{query}" if token else query).decode()
            rows = [
                (unquote_plus(name) if "%" in name or "+" in name else name, int(size), etag, at)
                for name, at, etag, size in OBJECT.findall(page)
            ]
            objects += len(rows)
            following = TOKEN.search(page)
            if following is None:
                return objects
            token = following[1]

    def delete(self, keys: Sequence[str]) -> int:
        """Delete keys; return how many."""
        objects = "".join(f"<Object><Key>{escape(name)}</Key></Object>" for name in keys)
        body = f'<Delete xmlns="http://s3.amazonaws.com/doc/2006-03-01/">{objects}<Quiet>true</Quiet></Delete>'
        if b"<Error>" in self._send("POST", "delete=", body.encode()):
            raise AssertionError("the store refused a key")
        return len(keys)


def contenders(url: str, small_url: str, keys: int) -> dict[str, dict[str, Work]]:
    """Return what each contender does, by the name of the work."""
    config = Config(s3={"addressing_style": "path"})
    clients = {at: boto3.client("s3", endpoint_url=at, config=config) for at in (url, small_url)}
    spec = VaultSpec(instance="shop", name="stub", kind="s3", location=BUCKET)
    vaults = {at: S3Vault(spec, at) for at in (url, small_url)}
    floors = {at: Floor(at) for at in (url, small_url)}
    names = [key(n, keys) for n in range(keys)]
    pages = [names[start : start + PAGE_KEYS] for start in range(0, keys, PAGE_KEYS)]
    prefixes = [f"data/{n % FOLDERS:x}/" for n in range(REQUESTS)]

    def list_boto3(at: str, prefix: str) -> int:
        told = clients[at].get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=prefix)
        return sum(len(page.get("Contents", ())) for page in told)

    def list_vault(at: str, prefix: str) -> int:
        return sum(len(page) for page in vaults[at].list(prefix))

    def delete_boto3() -> int:
        for page in pages:
            named = {"Objects": [{"Key": name} for name in page], "Quiet": True}
            if clients[url].delete_objects(Bucket=BUCKET, Delete=named).get("Errors"):
                raise AssertionError("the store refused a key")
        return keys

    def delete_vault() -> int:
        results = (result for page in pages for result in vaults[url].delete(page))
        return sum(result.outcome is KeyOutcome.DELETED for result in results)

    return {
        "list": {
            "boto3": lambda: list_boto3(url, "data/"),
            "vault": lambda: list_vault(url, "data/"),
            "floor": lambda: floors[url].list("data/"),
        },
        "delete": {
            "boto3": delete_boto3,
            "vault": delete_vault,
            "floor": lambda: sum(floors[url].delete(page) for page in pages),
        },
        "small": {
            "boto3": lambda: sum(list_boto3(small_url, prefix) for prefix in prefixes),
            "vault": lambda: sum(list_vault(small_url, prefix) for prefix in prefixes),
            "floor": lambda: sum(floors[small_url].list(prefix) for prefix in prefixes),
        },
    }


def _cpu(work: Work, expected: int) -> float:
    """Return the CPU seconds of one turn, all threads of this process."""
    began = time.process_time()
    if (counted := work()) != expected:
        raise AssertionError(f"{counted:,} of {expected:,} keys were reported")
    return time.process_time() - began


def run(keys: int = KEYS, pairs: int = PAIRS) -> Result:
    """Measure, in turns."""
    search_cycles_rarely()  # as a worker does
    os.environ |= {"AWS_ACCESS_KEY_ID": LOGIN, "AWS_SECRET_ACCESS_KEY": LOGIN, "AWS_DEFAULT_REGION": REGION}
    took: dict[str, dict[str, list[float]]] = {}
    with store(keys) as url, store(FOLDERS) as small_url:
        for name, works in contenders(url, small_url, keys).items():
            expected = REQUESTS if name == "small" else keys
            took[name] = {of: [] for of in works}
            for pair in range(-1, pairs):  # the first is for the caches
                turn = pair % len(works)
                for of in [*works][turn:] + [*works][:turn]:
                    seconds = _cpu(works[of], expected)
                    if pair >= 0:
                        took[name][of].append(seconds)
    figures: list[Figure] = []
    for name, by in took.items():
        for of, goal in (("boto3", GOALS[name]), ("floor", MOST_OF_FLOOR)):
            ratio = statistics.median(v / o for v, o in zip(by["vault"], by[of], strict=True))
            figures.append(at_most(f"{name}: CPU against {of}, median", ratio, goal, "x", 3))
        each = {of: 1e6 * statistics.median(s) / (REQUESTS if name == "small" else keys) for of, s in by.items()}
        figures.append(
            Figure(f"{name}, each: vault, boto3, floor", "{vault:.2f}, {boto3:.2f}, {floor:.2f} µs".format(**each))
        )
    sizes = {"keys": f"{keys:,}", "of 96 characters, keys a page": f"{PAGE_KEYS:,}", "pairs": pairs}
    return Result("client", sizes, figures, {"cpu seconds": took})
