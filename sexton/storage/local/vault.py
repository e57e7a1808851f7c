"""A vault in a directory, with the semantics of the S3 one: keys are paths below it, regular files are the objects.

It never leaves its root (see ``local_files``), and a root that is not there is a fault, not an empty vault.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import groupby, islice
from pathlib import Path

from pydantic import ValidationError

from sexton.kernel.errors import BadInput
from sexton.storage.local import own_files
from sexton.storage.local.files import NoPlace, folder, folders_in, look, place, unlink_together, walk
from sexton.storage.model import (
    MARKER_KEY,
    PAGE_KEYS,
    RESERVED_PREFIX,
    KeyOutcome,
    KeyResult,
    Listed,
    Marker,
    Probe,
    Shard,
    Undeleted,
    VaultSpec,
)
from sexton.storage.policy import check_key, check_listing, check_root, inside_other_vault, is_other_marker
from sexton.storage.port import VaultFault
from sexton.storage.shards import spread

DESCENDANT_KEYS = 10 * PAGE_KEYS
MOST_FOLDERS = 10_000
"""Folders in one beyond which its listing is not cut along them."""

_MARKER_FOLDER, _MARKER_NAME = MARKER_KEY.split("/")


class LocalVault:
    """Files below ``spec.location`` / ``spec.prefix``. Safe to share between threads."""

    def __init__(self, spec: VaultSpec) -> None:
        """Open without touching the disk.

        Raises:
            BadInput: the location is not an absolute path, or the prefix could lead out of it.
        """
        if not Path(spec.location).is_absolute():
            raise BadInput(f"the root of local vault {spec.name} must be an absolute path, not {spec.location!r}")
        check_root(spec.prefix)
        self.spec = spec
        self._folders = spec.prefix.split("/")[:-1]

    def read_marker(self) -> Marker | None:
        with self._faults(), place(self.spec.location) as location:
            try:
                with folder(location, [*self._folders, _MARKER_FOLDER]) as inner:
                    file = os.open(_MARKER_NAME, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inner)
            except FileNotFoundError:
                return None
            with os.fdopen(file, "rb") as source:
                return self._parse(source.read(), MARKER_KEY)

    def write_marker(self, marker: Marker) -> None:
        # A link gives the name only once: of two writers one is told.
        def link(draft: str, inner: int) -> None:
            try:
                os.link(draft, _MARKER_NAME, src_dir_fd=inner, dst_dir_fd=inner)
            except FileExistsError as error:
                raise self._fault("FOREIGN_MARKER", "there is a marker already; it is not overwritten") from error
            finally:
                os.unlink(draft, dir_fd=inner)

        self._write_marker(marker, link)

    def replace_marker(self, marker: Marker) -> None:
        self._write_marker(marker, None)

    def list(self, prefix: str) -> Iterator[Sequence[Listed]]:
        check_listing(prefix)
        return self._pages(prefix)

    def shards(self, count: int) -> Sequence[Shard]:
        with self._faults(), place(self.spec.location, self._folders) as root:
            return spread(partial(self._inner, root), count)

    def list_shard(self, shard: Shard) -> Iterator[Sequence[Listed]]:
        if shard.after or shard.until:
            raise ValueError(f"vault {self.spec.name} is a directory; a listing of it cannot be cut by keys")
        return self._pages(shard.prefix, deep=not shard.loose)

    def stat(self, keys: Sequence[str]) -> Sequence[Listed]:
        for key in keys:
            check_key(key)
        with self._faults(), place(self.spec.location, self._folders) as root:
            seen = [(key, look(root, key)) for key in keys]
        return [Listed(key, its.st_size, written=_stamp(its.st_mtime)) for key, its in seen if its is not None]

    def delete(self, keys: Sequence[str], etags: Sequence[str] = ()) -> Sequence[KeyResult]:
        if len(keys) > PAGE_KEYS:
            raise ValueError(f"{len(keys)} keys in one page, at most {PAGE_KEYS} are possible")
        if etags and len(etags) != len(keys):
            raise ValueError(f"{len(etags)} ETags for {len(keys)} keys")
        for key in keys:
            check_key(key)
        if self.spec.conditional:  # `vault add` refuses it
            why = "no ETag known: files have none; not deleted"
            return [KeyResult(key=key, outcome=KeyOutcome.FAILED, reason=why) for key in keys]
        with self._faults(), place(self.spec.location, self._folders) as root:
            # Neighbours come together, so each directory is opened, and made durable, once.
            together = groupby(keys, lambda key: key.rpartition("/")[0])
            return [result for parent, group in together for result in unlink_together(root, parent, list(group))]

    def abort_uploads(self, prefix: str) -> int:
        check_listing(prefix)
        return 0

    def uploads(self, before: str) -> Sequence[Listed]:
        del before  # a file is there from its first byte on
        return ()

    def versions_days(self) -> int | None:
        return None

    def write_own(self, name: str, data: bytes) -> None:
        with self._faults():
            own_files.write(self.spec.location, self._folders, name, data)

    def read_own(self, name: str) -> bytes | None:
        with self._faults():
            return own_files.read(self.spec.location, self._folders, name)

    def list_own(self, prefix: str) -> Iterator[Sequence[Listed]]:
        listed = own_files.pages(self.spec.location, self._folders, prefix)
        return self._guarded(listed)

    def remove_own(self, names: Sequence[str]) -> None:
        with self._faults():
            results = own_files.remove(self.spec.location, self._folders, names)
        for result in results:
            if result.outcome is KeyOutcome.FAILED:
                raise self._fault("DENIED", f"{result.key} could not be removed: {result.reason}")

    def probe(self) -> Probe:
        """Return what is known of every directory; nothing is tried."""
        return Probe(per_key_errors=True, tells_absent=True, order="byte", paging=True)

    def undelete(self, prefix: str = "", keys: Sequence[str] = (), *, dry_run: bool = False) -> Iterator[Undeleted]:
        del prefix, keys, dry_run  # whatever is asked for
        raise BadInput(
            f"nothing to undelete in vault {self.spec.name}: a directory keeps no versions, what was deleted is gone; "
            "restore it from a backup"
        )

    def ancestor_markers(self) -> Sequence[Marker]:
        found = []
        for above in reversed(Path(self.spec.location, self.spec.prefix).resolve().parents):
            marker = above / MARKER_KEY
            with self._faults():
                try:
                    found.append(self._parse(marker.read_bytes(), str(marker)))
                except (FileNotFoundError, NotADirectoryError):
                    continue
        return found

    def descendant_marker(self) -> Marker | None:
        with self._faults(), place(self.spec.location) as location:
            try:
                with folder(location, self._folders) as root:
                    other = next((k for k, *_ in islice(walk(root, ""), DESCENDANT_KEYS) if is_other_marker(k)), None)
            except FileNotFoundError:
                return None  # the prefix is not there yet
        inner = f"{self.spec.prefix}{other}".removesuffix(MARKER_KEY)
        return None if other is None else LocalVault(self.spec.model_copy(update={"prefix": inner})).read_marker()

    def _write_marker(self, marker: Marker, publish: Callable[[str, int], None] | None) -> None:
        folders, data = [*self._folders, _MARKER_FOLDER], marker.model_dump_json().encode()
        with self._faults():
            own_files.write_file(self.spec.location, folders, _MARKER_NAME, data, publish)

    def _guarded(self, pages: Iterator[Sequence[Listed]]) -> Iterator[Sequence[Listed]]:
        with self._faults():
            yield from pages

    def _inner(self, root: int, at: str) -> Sequence[str] | None:
        """Return the folders directly in one; None where there are very many, or it went away meanwhile."""
        try:
            with folder(root, at.split("/")[:-1]) as inner:
                found = folders_in(inner, at)
        except (FileNotFoundError, NotADirectoryError):
            return None
        return found if len(found) <= MOST_FOLDERS else None

    def _pages(self, prefix: str, *, deep: bool = True) -> Iterator[Sequence[Listed]]:
        page: list[Listed] = []
        with self._faults(), place(self.spec.location, self._folders) as root:
            for key, size, at in self._below(root, prefix, deep):
                if key.startswith(RESERVED_PREFIX):
                    continue
                if inside_other_vault(key):
                    raise self._fault("FOREIGN_MARKER", f"{key!r} belongs to another vault inside this one")
                page.append(Listed(key, size, written=_stamp(at)))
                if len(page) == PAGE_KEYS:
                    yield page
                    page = []
        if page:
            yield page

    def _below(self, root: int, prefix: str, deep: bool) -> Iterator[tuple[str, int, float]]:
        parent, slash, stem = prefix.rpartition("/")
        with ExitStack() as open_folder:
            try:
                inner = open_folder.enter_context(folder(root, parent.split("/") if parent else []))
            except (FileNotFoundError, NotADirectoryError):
                return  # as in a bucket: nothing was written under this prefix
            # Outside of the try: a folder that changes under the walk must not end the listing early and in silence.
            yield from walk(inner, parent + slash, stem, deep=deep)

    def _parse(self, raw: bytes, where: str) -> Marker:
        try:
            return Marker.model_validate_json(raw)
        except ValidationError as error:
            raise self._fault("FOREIGN_MARKER", f"{where} cannot be read as a marker: {raw!r:.80}") from error

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except NoPlace as error:
            raise self._fault("NO_BUCKET", f"{error}; is the disk mounted?") from error
        except PermissionError as error:
            raise self._fault("DENIED", f"{error}; let this user read and write the directory") from error
        except UnicodeDecodeError as error:
            raise self._fault("BAD_REPLY", f"the file name {error.object!r} is not UTF-8; rename it") from error
        except OSError as error:
            raise self._fault("UNREACHABLE", f"{error}; look at the disk") from error

    def _fault(self, reason: str, detail: str) -> VaultFault:
        return VaultFault(self.spec.name, reason, detail)


def _stamp(seconds: float) -> str:
    """Return an instant as ``Listed.written``."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
