"""An object that was written again since it was seen is not deleted, even with the same size or content."""

import datetime as dt
import time
from collections.abc import Sequence

import pytest

from sexton.kernel.errors import BadInput
from sexton.storage.model import KeyOutcome, KeyResult, ListedObject, Probe
from sexton.storage.port import Vault
from sexton.storage.s3.vault import S3Vault
from tests.integration.storage.versioned_bucket import set_versioning
from tests.support.places import Bucket, Place, listing, put_all

KEYS = ["d/1", "d/2", "d/3"]
DELETED, CHANGED, ABSENT = KeyOutcome.DELETED, KeyOutcome.CHANGED, KeyOutcome.ABSENT


def delete(vault: Vault, seen: Sequence[ListedObject], until: float | None = None) -> Sequence[KeyResult]:
    keys, etags, written = ([getattr(o, name) for o in seen] for name in ("key", "etag", "written"))
    return vault.delete_unchanged(keys, etags, written, until)


def outcomes(results: Sequence[KeyResult]) -> list[KeyOutcome]:
    return [result.outcome for result in results]


def earlier(seen: ListedObject) -> ListedObject:
    """Return an object as a check saw it that ran before the object was written again, an hour later."""
    written = dt.datetime.fromisoformat(seen.written) - dt.timedelta(hours=1)
    return seen._replace(written=written.isoformat())


def seen_in(vault: Vault) -> list[ListedObject]:
    return sorted(listing(vault, "d/"))


def test_only_objects_that_were_not_written_again_are_deleted(either: Place) -> None:
    put_all(either, [f"wh/{key}" for key in KEYS])
    vault = either.vault()
    first, second, third = seen_in(vault)

    results = delete(vault, [first, earlier(second), third])

    assert outcomes(results) == [DELETED, CHANGED, DELETED]
    assert second.written in results[1].reason
    assert [either.has(f"wh/{key}") for key in KEYS] == [False, True, False]


def test_a_missing_object_is_absent_and_an_undated_one_deleted(either: Place) -> None:
    put_all(either, [f"wh/{key}" for key in KEYS[:2]])
    vault = either.vault()
    first, second = seen_in(vault)

    results = delete(vault, [first._replace(key="d/none"), first._replace(written=""), second])

    assert outcomes(results) == [ABSENT, DELETED, DELETED]


def test_an_unacceptable_key_or_a_late_page_deletes_nothing(either: Place) -> None:
    put_all(either, ["wh/d/1"])
    vault = either.vault()
    [seen] = seen_in(vault)

    with pytest.raises(BadInput):
        delete(vault, [seen, seen._replace(key="../d")])
    assert outcomes(delete(vault, [seen], time.monotonic() - 1)) == [KeyOutcome.THROTTLED]
    assert either.has("wh/d/1")


@pytest.mark.parametrize(
    "options",
    [
        {"probe": Probe(etag_single=True)},
        {"probe": Probe(etag_single=True, etag_multi=True)},
        {"probe": Probe(etag_single=True), "conditional": True},
        {"probe": Probe(etag_single=False, etag_multi=False)},
    ],
    ids=["ETag of one", "ETag of many", "conditional", "no ETags"],
)
def test_other_content_is_kept_whatever_the_store_compares(place: Bucket, options: dict[str, object]) -> None:
    put_all(place, [f"wh/{key}" for key in KEYS])
    vault = place.vault(**options)
    first, second, third = seen_in(vault)
    place.put("wh/d/2", b"other")

    results = delete(vault, [first, second, earlier(third)])

    assert outcomes(results) == [DELETED, CHANGED, CHANGED]
    assert second.etag in results[1].reason
    assert [place.has(f"wh/{key}") for key in KEYS] == [False, True, True]


def test_content_between_look_up_and_delete_is_compared(place: Bucket, monkeypatch: pytest.MonkeyPatch) -> None:
    put_all(place, ["wh/d/1"])
    vault = S3Vault(place.vault().spec.model_copy(update={"probe": Probe(etag_single=True)}), place.endpoint_url)
    seen = seen_in(vault)
    delete_now = S3Vault._delete

    def rewrite_first(*arguments: object, **more: object) -> object:
        place.put("wh/d/1", b"other")
        return delete_now(*arguments, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(S3Vault, "_delete", rewrite_first)

    assert outcomes(delete(vault, seen)) == [CHANGED]


@pytest.mark.parametrize(("versions", "outcome"), [("keep", KeyOutcome.HIDDEN), ("purge", DELETED)])
def test_versions_are_hidden_or_purged_unless_written_again(place: Bucket, versions: str, outcome: KeyOutcome) -> None:
    set_versioning(place, "Enabled")
    put_all(place, [f"wh/{key}" for key in KEYS[:2]])
    vault = place.vault(versions=versions)
    first, second = seen_in(vault)

    assert outcomes(delete(vault, [first, earlier(second)])) == [outcome, CHANGED]
    assert [place.has(f"wh/{key}") for key in KEYS[:2]] == [False, True]
