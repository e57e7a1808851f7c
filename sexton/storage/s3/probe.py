"""Try what an S3 store really does, with small files of our own below ``_sexton/probe/``.

Stores differ, and some take an ETag and ignore it. Whoever relies on a feature looks here, not at what the store's
documentation says. What cannot be tried (no permission, not versioned) is None.
"""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from botocore.exceptions import ClientError

from sexton.storage.model import RESERVED_PREFIX, Probe
from sexton.storage.port import VaultFault
from sexton.storage.s3 import listing
from sexton.storage.s3.bucket import S3Bucket
from sexton.storage.s3.delete import Target, delete
from sexton.storage.s3.versions import ObjectVersion, page
from sexton.storage.s3.wire import REQUEST_ERRORS, error_of, is_about_request, stranger

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import PutObjectOutputTypeDef

T = TypeVar("T")
WRONG_ETAG = '"00000000000000000000000000000000"'
BY_BYTES = ["B", "a-x", "a.x", "a/x", "a0", "b"]
BY_PATH = ["B", "a/x", "a-x", "a.x", "a0", "b"]
BEYOND = ["\uff01", "\U0001f600"]
"""In the order of their bytes in UTF-8; in that of UTF-16, which Java and .NET compare by, the other comes first."""
ODD = "odd\x01 &+"


def probe(bucket: S3Bucket) -> Probe:
    """Return what the store was seen to do; nothing of the probe is left but what the store refuses to delete.

    Raises:
        VaultFault: the bucket is not there, not reachable, or these credentials may not write into it.
    """
    bucket.require()
    versioning = bucket.versioning()
    tried = _Trial(bucket, f"{RESERVED_PREFIX}probe/{secrets.token_hex(8)}/")
    try:
        etag_multi, told, quiet = tried.multi_delete()
        tells_absent = tried.ask(tried.tells_absent)
        seen = Probe(
            versioning="not told" if versioning is None else versioning,
            etag_multi=etag_multi,
            per_key_errors=told or tells_absent or None,
            quiet=quiet,
            tells_absent=tells_absent,
            etag_single=tried.ask(tried.etag_single),
            versions=tried.ask(tried.versions) if versioning == "Enabled" else None,
            versions_paging=tried.ask(tried.versions_paging) if versioning == "Enabled" else None,
            order=tried.ask(tried.order),
            paging=tried.ask(tried.paging),
            start_after=tried.ask(tried.start_after),
            encoding_type=tried.ask(tried.encoding_type),
            wrong_credentials_refused=tried.wrong_credentials_refused(),
        )
    finally:
        left = tried.clean()
    return seen.model_copy(update={"left": left})


class _Trial:
    """One probe, in a folder of its own."""

    def __init__(self, bucket: S3Bucket, folder: str) -> None:
        self._bucket, self._folder = bucket, folder

    def ask(self, question: Callable[["S3Client"], T]) -> T | None:
        """Ask one thing; None where the store refuses the request, which is neither yes nor no."""

        def request(s3: "S3Client") -> T | None:
            try:
                return question(s3)
            except ClientError as error:
                if is_about_request(error):
                    raise
                return None

        return self._bucket.call(request)

    def multi_delete(self) -> tuple[bool | None, bool | None, bool | None]:
        """Return what a request of three keys shows: ETags honoured, errors per key, and silence on what went."""
        etag, _, _ = (self._put(name)["ETag"] for name in ("m1", "m2", "m3"))

        def question(s3: "S3Client") -> tuple[bool, bool | None, bool]:
            objects: Any = [
                {"Key": self._full("m1"), "ETag": etag},
                {"Key": self._full("m2"), "ETag": WRONG_ETAG},
                {"Key": self._full("m3")},
            ]
            reply = s3.delete_objects(Bucket=self._bucket.name, Delete={"Objects": objects, "Quiet": True})
            refused = [error.get("Key", "") for error in reply.get("Errors", ())]
            kept, gone = self._is_there(s3, "m2"), not self._is_there(s3, "m1") and not self._is_there(s3, "m3")
            named = kept and gone and refused == [self._full("m2")]
            return named, named or None, not reply.get("Deleted")

        return self.ask(question) or (False, None, None)

    def tells_absent(self, s3: "S3Client") -> bool:
        wanted: Any = {"Objects": [{"Key": self._full("never-there")}], "Quiet": False}
        reply = s3.delete_objects(Bucket=self._bucket.name, Delete=wanted)
        return [error.get("Code") for error in reply.get("Errors", ())] == ["NoSuchKey"]

    def etag_single(self, s3: "S3Client") -> bool:
        etag, bucket, key = self._put("s1")["ETag"], self._bucket.name, self._full("s1")
        try:
            s3.delete_object(Bucket=bucket, Key=key, IfMatch=WRONG_ETAG)
        except ClientError as error:
            if error_of(error)[2] != 412:
                return False
        else:
            return False
        if not self._is_there(s3, "s1"):
            return False
        s3.delete_object(Bucket=bucket, Key=key, IfMatch=etag)
        return not self._is_there(s3, "s1")

    def versions(self, s3: "S3Client") -> bool:
        for _ in range(2):
            self._put("v/1")
        for _ in range(2):
            s3.delete_object(Bucket=self._bucket.name, Key=self._full("v/1"))
        found = page(self._bucket, f"{self._folder}v/").versions
        if sorted((v.marker, v.latest) for v in found) != [(False, False), (False, False), (True, False), (True, True)]:
            return False
        delete(self._bucket, [Target(v.key, v.id) for v in found])
        return not page(self._bucket, f"{self._folder}v/").versions

    def versions_paging(self, _: "S3Client") -> bool:
        """List versions two a page where a key is a folder as well, which a store that keeps a tree finds hard."""
        for name in ("a", "a", *BY_PATH):
            self._put(f"w/{name}")
        folder, found = f"{self._folder}w/", list[ObjectVersion]()
        whole = [(v.key, v.id) for v in page(self._bucket, folder).versions]
        after: tuple[str, str] | None = ("", "")
        while after is not None and len(found) <= len(whole):
            reply = page(self._bucket, folder, after=after, at_most=2)
            found += reply.versions
            after = reply.after
        keys = [v.key for v in found]
        return sorted((v.key, v.id) for v in found) == sorted(whole) and keys == sorted(keys)

    def order(self, _: "S3Client") -> Literal["byte", "path", "other"]:
        for name in BY_PATH:
            self._put(f"o/{name}")
        listed = [one.key.removeprefix(f"{self._folder}o/") for one in self._list("o/")]
        if listed != BY_BYTES:
            return "path" if listed == BY_PATH else "other"
        for name in BEYOND:
            self._put(f"u/{name}")
        try:
            last = [one.key.removeprefix(f"{self._folder}u/") for one in self._list("u/")]
        except VaultFault as fault:
            if fault.reason != "BAD_REPLY":
                raise
            return "other"  # each listing is checked for its order
        finally:  # now, as a listing of all that the probe wrote may be refused for them later
            delete(self._bucket, [Target(f"{self._folder}u/{name}") for name in BEYOND])
        return "byte" if last == BEYOND else "other"

    def paging(self, s3: "S3Client") -> bool:
        """List what ``order`` wrote, two objects a page."""
        found: list[str] = []
        token: dict[str, Any] = {}
        for _ in BY_PATH:
            reply = s3.list_objects_v2(Bucket=self._bucket.name, Prefix=self._full("o/"), MaxKeys=2, **token)
            found += [entry["Key"] for entry in reply.get("Contents", ())]
            if not reply.get("NextContinuationToken"):
                break
            token = {"ContinuationToken": reply["NextContinuationToken"]}
        return sorted(found) == sorted(self._full(f"o/{name}") for name in BY_PATH)

    def start_after(self, s3: "S3Client") -> bool:
        after = self._full("o/a0")
        reply = s3.list_objects_v2(Bucket=self._bucket.name, Prefix=self._full("o/"), StartAfter=after)
        return [entry["Key"] for entry in reply.get("Contents", ())] == [
            self._full(f"o/{name}") for name in BY_BYTES[5:]
        ]

    def encoding_type(self, s3: "S3Client") -> bool:
        version, full = self._put(f"e/{ODD}").get("VersionId", ""), self._full(f"e/{ODD}")
        seen = [one.key for one in self._list("e/")] == [f"{self._folder}e/{ODD}"]
        # Now, as it may not be found in a listing of versions later.
        s3.delete_object(Bucket=self._bucket.name, Key=full, **({"VersionId": version} if version else {}))  # type: ignore[arg-type]
        return seen

    def wrong_credentials_refused(self) -> bool:
        """Return whether a wrong secret is refused; any other trouble with that request is no refusal."""
        spec = self._bucket.spec
        client = stranger(self._bucket.endpoint, spec.region, spec.profile)
        try:
            client.list_objects_v2(Bucket=self._bucket.name, Prefix=self._full(""), MaxKeys=1)
        except ClientError as error:
            return error_of(error)[2] in (400, 401, 403)
        except REQUEST_ERRORS:
            return False
        return False

    def clean(self) -> int:
        """Remove all versions of the probe's files; return how many stay."""
        if self._bucket.versioning() != "":
            with suppress(VaultFault):  # versions that may not be listed are hidden below
                delete(self._bucket, [Target(v.key, v.id) for v in page(self._bucket, self._folder).versions])
                delete(self._bucket, [Target(one.key) for one in self._list("")])
                return len(page(self._bucket, self._folder).versions)
        delete(self._bucket, [Target(one.key) for one in self._list("")])
        return len(self._list(""))

    def _list(self, below: str) -> Sequence[Any]:
        return [one for listed in listing.pages(self._bucket, self._folder + below) for one in listed]

    def _put(self, name: str) -> "PutObjectOutputTypeDef":
        key = self._full(name)
        return self._bucket.call(lambda s3: s3.put_object(Bucket=self._bucket.name, Key=key, Body=b"sexton probe"))

    def _is_there(self, s3: "S3Client", name: str) -> bool:
        try:
            s3.head_object(Bucket=self._bucket.name, Key=self._full(name))
        except ClientError as error:
            if error_of(error)[2] == 404:
                return False
            raise
        return True

    def _full(self, name: str) -> str:
        return self._bucket.full(self._folder + name)
