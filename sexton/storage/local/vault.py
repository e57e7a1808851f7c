"""Implement the vault's port on a directory, as on S3: keys are paths below it, regular files are the objects.

No operation leaves the root (see ``files``), and a missing root is a fault, not an empty vault.
"""

import errno
import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path

from pydantic import ValidationError

from sexton.kernel.errors import BadInput
from sexton.storage.local.files import (
    ABOUT_NAME,
    MissingDirectory,
    as_written,
    open_folder,
    open_location,
    stat_file,
    unlink_all,
    walk,
    write_file,
)
from sexton.storage.model import (
    MARKER_KEY,
    PAGE_KEYS,
    PAGE_SECONDS,
    RESERVED_PREFIX,
    KeyOutcome,
    KeyResult,
    ListedObject,
    Marker,
    Probe,
    Undeleted,
    VaultPart,
    VaultSpec,
)
from sexton.storage.policy import (
    check_keys,
    check_listing,
    check_own,
    check_own_prefix,
    check_root,
    inside_other_vault,
    is_other_marker,
    is_own,
)
from sexton.storage.port import VaultFault
from sexton.storage.vault_parts import spread

DESCENDANT_KEYS = 10 * PAGE_KEYS
MOST_FOLDERS = 10_000
"""The listing of a folder with more folders than this is not cut along them."""


class LocalVault:
    """Files below ``spec.location`` / ``spec.prefix``. Safe to share between threads."""

    def __init__(self, spec: VaultSpec) -> None:
        """Open without touching the disk.

        Raises:
            BadInput: the location is not an absolute path, or the prefix could lead out of it.
        """
        if not Path(spec.location).is_absolute():
            raise BadInput(f"the root of local vault {spec.name} is {spec.location!r}; use an absolute path")
        check_root(spec.prefix)
        self.spec = spec
        self._folders = spec.prefix.split("/")[:-1]

    def read_marker(self) -> Marker | None:
        raw = self._read(MARKER_KEY)
        return None if raw is None else self._parse(raw, MARKER_KEY)

    def write_marker(self, marker: Marker) -> None:
        self._write(MARKER_KEY, marker.model_dump_json().encode(), new=True)

    def replace_marker(self, marker: Marker) -> None:
        self._write(MARKER_KEY, marker.model_dump_json().encode())

    def remove_marker(self) -> None:
        self._remove([self.spec.prefix + MARKER_KEY])

    def list(self, prefix: str) -> Iterator[Sequence[ListedObject]]:
        check_listing(prefix)
        return self._pages(self._objects(prefix))

    def parts(self, count: int) -> Sequence[VaultPart]:
        with self._faults(), open_location(self.spec.location, self._folders) as root:

            def folders(path: str) -> Sequence[str] | None:  # None also where there are very many
                try:
                    with open_folder(root, path.split("/")[:-1]) as inner, os.scandir(inner) as entries:
                        names = [os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
                except (FileNotFoundError, NotADirectoryError):
                    return None  # it was deleted meanwhile
                paths = sorted(f"{path}{name.decode()}/" for name in names)
                return paths if len(paths) <= MOST_FOLDERS else None

            return spread(folders, count)

    def reports(self) -> Sequence[VaultPart]:
        return ()

    def list_part(self, part: VaultPart) -> Iterator[Sequence[ListedObject]]:
        if part.after or part.until:
            raise ValueError(f"vault {self.spec.name} is a directory; its listing cannot be cut by keys")
        return self._pages(self._objects(part.prefix, deep=not part.loose))

    def stat(self, keys: Sequence[str]) -> Sequence[ListedObject]:
        check_keys(keys)
        with self._faults(), open_location(self.spec.location, self._folders) as root:
            files = [(key, stat_file(root, key)) for key in keys]
        return [
            ListedObject(key, status.st_size, written=as_written(status.st_mtime))
            for key, status in files
            if status is not None
        ]

    def prepare_delete(self) -> None:
        """Do nothing: a directory is deleted from at once."""

    def delete(self, keys: Sequence[str], etags: Sequence[str] = (), until: float | None = None) -> Sequence[KeyResult]:
        del etags  # files have none
        return self._delete(keys, until)

    def delete_unchanged(
        self, keys: Sequence[str], etags: Sequence[str], written: Sequence[str], until: float | None = None
    ) -> Sequence[KeyResult]:
        del etags  # files have none
        return self._delete(keys, until, dict(zip(keys, written, strict=True)))

    def _delete(
        self, keys: Sequence[str], until: float | None, seen: Mapping[str, str] | None = None
    ) -> Sequence[KeyResult]:
        check_keys(keys)
        if self.spec.conditional:  # `vault add` refuses it
            reason = "no ETag known: files have none; not deleted"
            return [KeyResult(key=key, outcome=KeyOutcome.FAILED, reason=reason) for key in keys]
        with self._faults(), open_location(self.spec.location, self._folders) as root:
            return unlink_all(root, keys, time.monotonic() + PAGE_SECONDS if until is None else until, seen)

    def abort_uploads(self, *prefixes: str) -> int:
        del prefixes  # a file exists from its first byte on
        return 0

    def uploads(self, before: str) -> Sequence[ListedObject]:
        del before  # a file exists from its first byte on
        return ()

    def versions_days(self) -> int | None:
        return None

    def write_own(self, name: str, data: bytes) -> None:
        check_own(name)
        self._write(RESERVED_PREFIX + name, data)

    def read_own(self, name: str) -> bytes | None:
        check_own(name)
        return self._read(RESERVED_PREFIX + name)

    def list_own(self, prefix: str) -> Iterator[Sequence[ListedObject]]:
        check_own_prefix(prefix)
        start = self.spec.prefix + RESERVED_PREFIX

        def files() -> Iterator[ListedObject]:
            with open_location(self.spec.location) as location:
                for key, size, _ in self._walk(location, start + prefix, deep=True):
                    if is_own(name := key.removeprefix(start)):
                        yield ListedObject(name, size)

        return self._pages(files())

    def remove_own(self, names: Sequence[str]) -> None:
        for name in names:
            check_own(name)
        self._remove([f"{self.spec.prefix}{RESERVED_PREFIX}{name}" for name in names])

    def _remove(self, paths: Sequence[str]) -> None:
        with self._faults(), open_location(self.spec.location) as location:
            results = unlink_all(location, paths)
        for result in results:
            if result.outcome is KeyOutcome.FAILED:
                raise self._fault("DENIED", f"{result.key} was not removed: {result.reason}")

    def probe(self) -> Probe:
        """Return what is true of every directory; nothing is tried."""
        return Probe(per_key_errors=True, tells_absent=True, order="byte", paging=True)

    def undelete(self, prefix: str = "", keys: Sequence[str] = (), *, dry_run: bool = False) -> Iterator[Undeleted]:
        del prefix, keys, dry_run  # refused for all
        raise BadInput(
            f"nothing to undelete in vault {self.spec.name}: a directory keeps no versions, deleted files are gone; "
            "restore them from a backup"
        )

    def ancestor_markers(self) -> Sequence[Marker]:
        markers = []
        for ancestor in reversed(Path(self.spec.location, self.spec.prefix).resolve().parents):
            file = ancestor / MARKER_KEY
            with self._faults():
                try:
                    markers.append(self._parse(file.read_bytes(), str(file)))
                except (FileNotFoundError, NotADirectoryError):
                    continue
        return markers

    def descendant_marker(self) -> Marker | None:
        with self._faults(), open_location(self.spec.location) as location:
            try:
                with open_folder(location, self._folders) as root:
                    keys = (key for key, *_ in islice(walk(root, ""), DESCENDANT_KEYS))
                    marker_key = next(filter(is_other_marker, keys), None)
            except FileNotFoundError:
                return None  # the prefix does not exist yet
        if marker_key is None:
            return None
        prefix = f"{self.spec.prefix}{marker_key}".removesuffix(MARKER_KEY)
        return LocalVault(self.spec.model_copy(update={"prefix": prefix})).read_marker()

    def _read(self, path: str) -> bytes | None:
        """Return a file of the vault; None where it does not exist."""
        *folders, name = path.split("/")
        with self._faults(), open_location(self.spec.location) as location:
            try:
                with open_folder(location, [*self._folders, *folders]) as inner:
                    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=inner)
            except (FileNotFoundError, NotADirectoryError):
                return None
            with os.fdopen(file, "rb") as source:
                return source.read()

    def _write(self, path: str, data: bytes, *, new: bool = False) -> None:
        *folders, name = path.split("/")
        with self._faults():
            write_file(self.spec.location, [*self._folders, *folders], name, data, new=new)

    def _objects(self, prefix: str, *, deep: bool = True) -> Iterator[ListedObject]:
        with open_location(self.spec.location, self._folders) as root:
            for key, size, written_at in self._walk(root, prefix, deep):
                if key.startswith(RESERVED_PREFIX):
                    continue
                if inside_other_vault(key):
                    raise self._fault("FOREIGN_MARKER", f"{key!r} belongs to another vault inside this one")
                yield ListedObject(key, size, written=as_written(written_at))

    def _pages(self, objects: Iterator[ListedObject]) -> Iterator[Sequence[ListedObject]]:
        with self._faults():
            while page := list(islice(objects, PAGE_KEYS)):
                yield page

    def _walk(self, root: int, prefix: str, deep: bool) -> Iterator[tuple[str, int, float]]:
        """Yield (key, bytes, last write) of the files under a prefix."""
        parent, slash, stem = prefix.rpartition("/")
        with ExitStack() as folders:
            try:
                inner = folders.enter_context(open_folder(root, parent.split("/") if parent else []))
            except (FileNotFoundError, NotADirectoryError):
                return  # as in a bucket: no object has this prefix
            # Outside of the try: a folder that changes during the walk must not end the listing early without an error.
            yield from walk(inner, parent + slash, stem, deep=deep)

    def _parse(self, raw: bytes, where: str) -> Marker:
        try:
            return Marker.model_validate_json(raw)
        except ValidationError as error:
            raise self._fault("FOREIGN_MARKER", f"{where} cannot be read as a marker: {raw!r:.80}") from error

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Turn errors of the file system into faults of the vault."""
        try:
            yield
        except FileExistsError as error:  # of a file that must be new
            raise self._fault("FOREIGN_MARKER", "a marker exists already; it is not overwritten") from error
        except MissingDirectory as error:
            raise self._fault("NO_BUCKET", f"{error}; is the disk mounted?") from error
        except PermissionError as error:
            raise self._fault("DENIED", f"{error}; let this user read and write the directory") from error
        except UnicodeDecodeError as error:
            raise self._fault("BAD_REPLY", f"the file name {error.object!r} is not UTF-8; rename it") from error
        except OSError as error:
            if error.errno in ABOUT_NAME:
                raise self._fault("BAD_REPLY", f"{error}; only directories are listed") from error
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT)
            room = f"make room on the disk of {self.spec.location}: a deletion needs a little"
            todo = room if is_full else "check the disk"
            raise self._fault("UNREACHABLE", f"{error}; {todo}") from error

    def _fault(self, reason: str, detail: str) -> VaultFault:
        return VaultFault(self.spec.name, reason, detail)
