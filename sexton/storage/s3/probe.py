"""Probe how an S3 store behaves, with small files of our own below ``_sexton/probe/``.

Stores differ, and some accept an ETag and ignore it. Code that relies on a feature reads the probe, not the store's
documentation. A feature that cannot be tried (no permission, not versioned) is None.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from botocore.exceptions import ClientError

from sexton.storage.model import RESERVED_PREFIX, ListedObject, Probe
from sexton.storage.port import VaultFault
from sexton.storage.s3 import listing
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import DeleteReply, delete, read
from sexton.storage.s3.purge import ObjectVersion, delete_versions, page
from sexton.storage.s3.transport import Transport
from sexton.storage.s3.wire import REQUEST_ERRORS, client_with_wrong_secret, error_of, is_about_request

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import PutObjectOutputTypeDef

T = TypeVar("T")
WRONG_ETAG = '"00000000000000000000000000000000"'
BY_BYTES = ["B", "a-x", "a.x", "a/x", "a0", "b"]
BY_PATH = ["B", "a/x", "a-x", "a.x", "a0", "b"]
BEYOND_BMP = ["\uff01", "\U0001f600"]
"""In the order of their bytes in UTF-8; in the order of UTF-16, by which Java and .NET compare, the other is first."""
ODD = "odd\x01 &+"


def probe(bucket: S3Bucket) -> Probe:
    """Return how the store behaved; only files that it refuses to delete are left of the probe.

    Raises:
        VaultFault: the bucket does not exist, is not reachable, or these credentials may not write into it.
    """
    bucket.require_exists()
    versioning = bucket.versioning()
    is_versioned = versioning == "Enabled"
    trial = _Trial(bucket, f"{RESERVED_PREFIX}probe/{secrets.token_hex(8)}/")
    try:
        etag_multi, quiet = trial.attempt(trial.multi_delete) or (False, None)
        tells_absent = trial.attempt(trial.tells_absent)
        result = Probe(
            versioning="not told" if versioning is None else versioning,
            etag_multi=etag_multi,
            per_key_errors=etag_multi or tells_absent or None,
            quiet=quiet,
            tells_absent=tells_absent,
            etag_single=trial.attempt(trial.etag_single),
            versions=trial.attempt(trial.versions) if is_versioned else None,
            versions_paging=trial.attempt(trial.versions_paging) if is_versioned else None,
            object_lock=(trial.attempt(trial.object_lock) or "") if is_versioned else "off",
            order=trial.attempt(trial.order),
            paging=trial.attempt(trial.paging),
            start_after=trial.attempt(trial.start_after),
            encoding_type=trial.attempt(trial.encoding_type),
            wrong_credentials_refused=trial.wrong_credentials_refused(),
        )
    finally:
        left = trial.clean()
    return result.model_copy(update={"left": left})


class _Trial:
    """One probe, in a folder of its own."""

    def __init__(self, bucket: S3Bucket, folder: str) -> None:
        self._bucket, self._folder = bucket, folder

    def attempt(self, experiment: Callable[["S3Client"], T]) -> T | None:
        """Return the result of one experiment; None where the store refuses a request of it, which shows nothing."""

        def request(via: Transport) -> T | None:
            try:
                return experiment(via.s3)
            except ClientError as error:
                if is_about_request(error):
                    raise
                return None

        return self._bucket.call(request)

    def multi_delete(self, s3: "S3Client") -> tuple[bool, bool]:
        """Return what a request of three keys shows: one with its ETag, one with a wrong ETag, one without.

        That is whether each ETag was respected, in an error of its own, and whether the reply was quiet.
        """
        etag, _, _ = (self._put(name)["ETag"] for name in ("m1", "m2", "m3"))
        objects: Any = [
            {"Key": self._full("m1"), "ETag": etag},
            {"Key": self._full("m2"), "ETag": WRONG_ETAG},
            {"Key": self._full("m3")},
        ]
        errors, deleted = self._delete(s3, objects, quiet=True)
        refused = [error.get("Key", "") for error in errors]
        wrong_etag_stays = self._exists(s3, "m2")
        others_deleted = not self._exists(s3, "m1") and not self._exists(s3, "m3")
        respected = wrong_etag_stays and others_deleted and refused == [self._full("m2")]
        return respected, not deleted

    def tells_absent(self, s3: "S3Client") -> bool:
        errors, _ = self._delete(s3, [{"Key": self._full("never-there")}], quiet=False)
        return [error.get("Code") for error in errors] == ["NoSuchKey"]

    def etag_single(self, s3: "S3Client") -> bool:
        etag, bucket, key = self._put("s1")["ETag"], self._bucket.name, self._full("s1")
        try:
            s3.delete_object(Bucket=bucket, Key=key, IfMatch=WRONG_ETAG)
        except ClientError as error:
            if error_of(error)[2] != 412:
                return False
        else:
            return False
        if not self._exists(s3, "s1"):
            return False
        s3.delete_object(Bucket=bucket, Key=key, IfMatch=etag)
        return not self._exists(s3, "s1")

    def versions(self, s3: "S3Client") -> bool:
        for _ in range(2):
            self._put("v/1")
        for _ in range(2):
            s3.delete_object(Bucket=self._bucket.name, Key=self._full("v/1"))
        listed = page(self._bucket, f"{self._folder}v/").versions
        expected = [(False, False), (False, False), (True, False), (True, True)]
        if sorted((v.marker, v.latest) for v in listed) != expected:
            return False
        delete_versions(self._bucket, listed)
        return not page(self._bucket, f"{self._folder}v/").versions

    def versions_paging(self, _: "S3Client") -> bool:
        """List versions in pages of two, with a key that is a folder as well: stores that have a tree fail at that."""
        for name in ("a", "a", *BY_PATH):
            self._put(f"w/{name}")
        folder, paged = f"{self._folder}w/", list[ObjectVersion]()
        at_once = [(v.key, v.id) for v in page(self._bucket, folder).versions]
        after: tuple[str, str] | None = ("", "")
        while after is not None and len(paged) <= len(at_once):
            reply = page(self._bucket, folder, after=after, at_most=2)
            paged += reply.versions
            after = reply.after
        keys = [v.key for v in paged]
        return sorted((v.key, v.id) for v in paged) == sorted(at_once) and keys == sorted(keys)

    def order(self, _: "S3Client") -> Literal["byte", "path", "other"]:
        for name in BY_PATH:
            self._put(f"o/{name}")
        names = [listed.key.removeprefix(f"{self._folder}o/") for listed in self._list("o/")]
        if names != BY_BYTES:
            return "path" if names == BY_PATH else "other"
        for name in BEYOND_BMP:
            self._put(f"u/{name}")
        try:
            names = [listed.key.removeprefix(f"{self._folder}u/") for listed in self._list("u/")]
        except VaultFault as fault:
            if fault.reason != "BAD_REPLY":
                raise
            return "other"  # the listing was refused for its order
        finally:  # now, because these names would later make the listing of all files of the probe fail
            delete(self._bucket, [f"{self._folder}u/{name}" for name in BEYOND_BMP])
        return "byte" if names == BEYOND_BMP else "other"

    def paging(self, s3: "S3Client") -> bool:
        """List the files of ``order`` in pages of two."""
        keys: list[str] = []
        token: dict[str, Any] = {}
        for _ in BY_PATH:
            page = self._read_page(s3, MaxKeys=2, **token)
            keys += page.keys
            if not page.token:
                break
            token = {"ContinuationToken": page.token}
        return sorted(keys) == sorted(self._full(f"o/{name}") for name in BY_PATH)

    def start_after(self, s3: "S3Client") -> bool:
        page = self._read_page(s3, StartAfter=self._full("o/a0"))
        return page.keys == [self._full(f"o/{name}") for name in BY_BYTES[5:]]

    def encoding_type(self, s3: "S3Client") -> bool:
        version, full_key = self._put(f"e/{ODD}").get("VersionId", ""), self._full(f"e/{ODD}")
        is_listed = [listed.key for listed in self._list("e/")] == [f"{self._folder}e/{ODD}"]
        # Now, because a listing of versions may not show it later.
        s3.delete_object(Bucket=self._bucket.name, Key=full_key, **({"VersionId": version} if version else {}))  # type: ignore[arg-type]
        return is_listed

    def wrong_credentials_refused(self) -> bool:
        """Return whether a wrong secret is refused; any other failure of that request is no refusal."""
        spec = self._bucket.spec
        client = client_with_wrong_secret(self._bucket.endpoint, spec.region, spec.profile, self._bucket.trust.ca_certs)
        try:
            client.list_objects(self._bucket.name, {"Prefix": self._full(""), "MaxKeys": 1})
        except ClientError as error:
            return error_of(error)[2] in (400, 401, 403)
        except REQUEST_ERRORS:
            return False
        return False

    def clean(self) -> int:
        """Remove all versions of the probe's files; return how many are left."""
        if self._bucket.versioning() != "":
            with suppress(VaultFault):  # where versions cannot be listed, the files are hidden below
                delete_versions(self._bucket, page(self._bucket, self._folder).versions)
                delete(self._bucket, [listed.key for listed in self._list("")])
                return len(page(self._bucket, self._folder).versions)
        delete(self._bucket, [listed.key for listed in self._list("")])
        return len(self._list(""))

    def object_lock(self, s3: "S3Client") -> str:
        """Return whether the bucket can lock objects, and for how long it locks new ones. It needs versions."""
        try:
            answer = s3.get_object_lock_configuration(Bucket=self._bucket.name)
        except ClientError as error:
            if error_of(error)[0] == "ObjectLockConfigurationNotFoundError":
                return "off"
            raise
        by_default = answer["ObjectLockConfiguration"].get("Rule", {}).get("DefaultRetention", {})
        if not by_default:
            return "on"
        span = f"{by_default['Years']} years" if by_default.get("Years") else f"{by_default.get('Days', '?')} days"
        return f"{by_default.get('Mode', '?')} for {span}"

    def _delete(self, s3: "S3Client", objects: Any, *, quiet: bool) -> DeleteReply:
        reply: Any = s3.delete_objects(Bucket=self._bucket.name, Delete={"Objects": objects, "Quiet": quiet})
        return read(reply["Body"])

    def _read_page(self, s3: "S3Client", **options: Any) -> listing.ListingPage:
        reply: Any = s3.list_objects_v2(Bucket=self._bucket.name, Prefix=self._full("o/"), **options)
        return listing.read(reply["Body"])

    def _list(self, prefix: str) -> Sequence[ListedObject]:
        return [listed for page in listing.pages(self._bucket, self._folder + prefix, own=True) for listed in page]

    def _put(self, name: str) -> "PutObjectOutputTypeDef":
        key = self._full(name)
        return self._bucket.call(lambda via: via.s3.put_object(Bucket=self._bucket.name, Key=key, Body=b"sexton probe"))

    def _exists(self, s3: "S3Client", name: str) -> bool:
        try:
            s3.head_object(Bucket=self._bucket.name, Key=self._full(name))
        except ClientError as error:
            if error_of(error)[2] == 404:
                return False
            raise
        return True

    def _full(self, name: str) -> str:
        return self._bucket.full(self._folder + name)
