"""The requests of a page of deletes end in time, however slowly the store answers."""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from sexton.marks.model import FilePage
from sexton.recycle.pipeline.delete import delete_page
from sexton.storage.model import IN_FLIGHT_SECONDS, REQUEST_SECONDS, VERIFIED_SECONDS, KeyOutcome, Probe, VaultSpec
from sexton.storage.s3 import bucket, delete, purge, vault
from sexton.storage.s3.purge import FoundVersions, ObjectVersion
from sexton.storage.s3.vault import S3Vault

SLOW_SECONDS = REQUEST_SECONDS - 1
AT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SPEC = VaultSpec(instance="shop", name="cold", kind="s3", location="b", probe=Probe(etag_multi=False))


class SlowStore:
    """A clock, and a client whose requests each move it; ``ended``: when the deletes took effect."""

    def __init__(self, versioning: str = "", seconds: Iterator[float] | None = None) -> None:
        self.now, self.ended, self.sent, self.s3 = 0.0, list[float](), list[float](), self
        self._versioning, self._seconds = versioning, seconds

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def answer(self) -> None:
        self.now += SLOW_SECONDS if self._seconds is None else next(self._seconds)

    def get_bucket_versioning(self, **_: Any) -> dict[str, str]:
        self.answer()
        return {"Status": self._versioning} if self._versioning else {}

    def delete_objects(self, *_: Any, **_named: Any) -> bytes:
        self.sent.append(self.now)
        self.answer()
        self.ended.append(self.now)
        return b"<DeleteResult/>"

    delete_object = delete_objects

    def versions_of(self, _bucket: Any, keys: Sequence[str], _until: float) -> tuple[list[FoundVersions], list[str]]:
        self.answer()
        listed = {
            key: [
                ObjectVersion(key, f"{self.now}", 1, marker=False, latest=False, at=AT),
                ObjectVersion(key, f"m{self.now}", 0, marker=True, latest=True, at=AT),
            ]
            for key in keys
        }
        return [FoundVersions(listed, complete=True)], []

    def install(self, monkeypatch: pytest.MonkeyPatch) -> "SlowStore":
        """Let all requests go to this store; the requests of a page are sent one after another."""
        for module in (bucket, delete, purge, vault, purge):
            monkeypatch.setattr(module, "time", self, raising=False)
        monkeypatch.setattr(bucket, "REQUESTS_AT_ONCE", 1)
        monkeypatch.setattr(bucket, "transport", lambda *_: self)
        monkeypatch.setattr(purge, "versions_of", self.versions_of)
        return self


def test_no_request_outlasts_the_wait_of_a_take_over() -> None:
    for case in ("plain", "conditional", "odd keys", "purging"):
        with pytest.MonkeyPatch.context() as patch:
            store = SlowStore("Enabled" if case == "purging" else "").install(patch)
            keys = [f"k{n}" for n in range(10)] + [f"odd\x01{n}" for n in range(10 if case == "odd keys" else 0)]
            changes = {"conditional": case == "conditional", "versions": "purge" if case == "purging" else "keep"}
            cold = S3Vault(SPEC.model_copy(update=changes), "https://store")
            cold.prepare_delete()
            began = store.now

            results = delete_page(cold, page(keys, "e"))

        assert max(store.ended) - began <= IN_FLIGHT_SECONDS - VERIFIED_SECONDS, case
        assert len(results) == len(keys)
        assert {result.outcome for result in results} <= {KeyOutcome.DELETED, KeyOutcome.THROTTLED}


def page(keys: Sequence[str], etag: str = "") -> FilePage:
    return FilePage("cold", range(len(keys)), keys, [etag] * len(keys))


def test_a_prepared_page_sends_its_delete_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    store = SlowStore().install(monkeypatch)
    cold = S3Vault(SPEC, "https://store")
    cold.prepare_delete()
    prepared_at = store.now

    delete_page(cold, page(["k"]))

    assert (prepared_at, store.sent) == (SLOW_SECONDS, [prepared_at])


def test_a_second_turn_of_a_purge_ends_in_time_too(monkeypatch: pytest.MonkeyPatch) -> None:
    quick_then_slow = iter([1.0, 6.5, 6.5, 5.5, *[SLOW_SECONDS] * 9])
    store = SlowStore("Enabled", quick_then_slow).install(monkeypatch)

    [result] = delete_page(S3Vault(SPEC.model_copy(update={"versions": "purge"}), ""), page(["k"]))

    assert result.outcome is KeyOutcome.THROTTLED
    assert len(store.ended) == 2
    assert max(store.ended) <= IN_FLIGHT_SECONDS - VERIFIED_SECONDS


def test_a_page_with_a_refused_key_is_sent_in_parts() -> None:
    sizes: list[int] = []

    class Refusing(S3Vault):
        def delete(self, keys: Sequence[str], etags: Sequence[str] = (), until: float | None = None) -> Any:
            self._check(keys)
            sizes.append(len(keys))
            return [vault.KeyResult(key=key, outcome=KeyOutcome.DELETED) for key in keys]

    keys = ["a", "b", "c", "x" * 2_000]

    results = delete_page(Refusing(SPEC), page(keys))

    assert sizes == [2, 1]
    assert [r.outcome for r in results] == [KeyOutcome.DELETED] * 3 + [KeyOutcome.FAILED]
