"""List and delete files below a directory, and never leave that directory.

Every path component is opened relative to the one before and without following symbolic links, so neither an existing
link nor one that is created meanwhile leads a listing or an unlink to another place.
"""

import errno
import math
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby

from sexton.storage.model import KeyOutcome, KeyResult
from sexton.storage.policy import DRAFT, is_rewritten, out_of_time, rewritten_text

_FOLDER_MODE = 0o755
"""Of folders for Sexton's own files: a worker that another user runs must be able to prove the vault."""
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ABOUT_NAME = {errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG}
"""Errors of one name: a link is not followed, nothing is below a file."""
_ABOUT_KEY = ABOUT_NAME | {errno.EACCES, errno.EPERM, errno.EBUSY}
"""Errors of one key. Any other one (EIO, EROFS, ESTALE, ...) is a fault of the disk, and so of the vault."""


class MissingDirectory(Exception):
    """The directory of a vault does not exist."""


@contextmanager
def open_location(path: str, folders: Sequence[str] = ()) -> Iterator[int]:
    """Open a vault's location, and below it the folders of its prefix; yield the file descriptor.

    Symbolic links are followed in the location, which an operator chose, but not in the folders.

    Raises:
        MissingDirectory: a part of the path is missing or is no directory.
    """
    try:
        location = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fd = _open(location, folders)
        finally:
            os.close(location)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise MissingDirectory(f"{path}/{'/'.join(folders)}: {error.strerror}") from error
        raise
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def open_folder(start: int, folders: Sequence[str]) -> Iterator[int]:
    """Open a directory below an open one; yield its file descriptor.

    Raises:
        OSError: ELOOP where a component is a symbolic link.
    """
    fd = _open(start, folders)
    try:
        yield fd
    finally:
        os.close(fd)


def make_folders(start: int, folders: Sequence[str]) -> None:
    """Create the missing directories below an open one, durably."""
    for depth, name in enumerate(folders):
        with open_folder(start, folders[:depth]) as parent:
            with suppress(FileExistsError):
                os.mkdir(name, _FOLDER_MODE, dir_fd=parent)
            os.fsync(parent)


def walk(start: int, path: str, stem: str = "", *, deep: bool = True) -> Iterator[tuple[str, int, float]]:
    """Yield (key, bytes, last write in seconds since 1970) of the files below an open directory, in byte order of keys.

    Only the names of one directory per level are in memory. Symbolic links, sockets and the like are no objects.

    Args:
        start: the directory.
        path: the beginning of its keys: empty or ending with ``/``.
        stem: the beginning of names directly in it; names in directories below may be any.
        deep: whether to walk into directories.
    """
    with os.scandir(start) as entries:
        # A directory sorts as the keys in it do: `a-x` and `a.x` before `a/x`, `a0` after.
        names = sorted(
            os.fsencode(entry.name) + (b"/" if entry.is_dir(follow_symlinks=False) else b"")
            for entry in entries
            if entry.name.startswith(stem)
        )
    for raw in names:
        name = raw.decode()
        with suppress(FileNotFoundError):  # deleted since the scan: the listing does not show it
            if name.endswith("/"):
                if not deep:
                    continue
                with open_folder(start, [name[:-1]]) as inner:
                    yield from walk(inner, path + name)
            else:
                status = os.stat(name, dir_fd=start, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode):
                    yield path + name, status.st_size, status.st_mtime


def as_written(seconds: float) -> str:
    """Return an instant, in seconds since 1970, as ``ListedObject.written``."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(math.floor(seconds)))


def write_file(path: str, folders: Sequence[str], name: str, data: bytes, *, new: bool = False) -> None:
    """Write a file, and create its folder where it is missing.

    The file is complete before it gets its name: a crash leaves a complete file or none.

    Args:
        path: the vault's location.
        folders: the folders from there to the file.
        name: of the file.
        data: its bytes.
        new: the file must not exist yet; otherwise it is replaced.

    Raises:
        FileExistsError: it exists already, and must be new.
    """
    draft = f"{DRAFT}{secrets.token_hex(8)}"
    with open_location(path) as location:
        make_folders(location, folders)
        with open_folder(location, folders) as inner:
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=inner)
            try:
                with os.fdopen(file, "wb") as out:
                    out.write(data)
                    out.flush()
                    os.fsync(out.fileno())
                if new:  # a link gives the name only once: the second of two writers gets an error
                    os.link(draft, name, src_dir_fd=inner, dst_dir_fd=inner)
                else:
                    os.replace(draft, name, src_dir_fd=inner, dst_dir_fd=inner)
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(draft, dir_fd=inner)
            os.fsync(inner)


def unlink_all(
    root: int, keys: Sequence[str], until: float = float("inf"), seen: Mapping[str, str] | None = None
) -> list[KeyResult]:
    """Unlink files, durably; their directories stay.

    An empty directory stays too, because a writer may have just created it and be about to create a file there. Each
    directory is opened, and synchronised to disk, once where the keys of one are neighbours.

    Args:
        root: the vault's directory.
        keys: paths of the files below it.
        until: no file is unlinked after this instant, in monotonic seconds; those that are left are THROTTLED.
        seen: key → last write of the file that is meant; one that was written again is CHANGED.

    Raises:
        OSError: the disk failed; the results of the keys are unknown.
    """
    results: list[KeyResult] = []
    for parent, group in groupby(keys, lambda key: key.rpartition("/")[0]):
        together = list(group)
        if time.monotonic() > until:
            results += map(out_of_time, together)
            continue
        try:
            with open_folder(root, parent.split("/") if parent else []) as inner:
                unlinked = [
                    _unlink(inner, key, (seen or {}).get(key, "")) if time.monotonic() <= until else out_of_time(key)
                    for key in together
                ]
                os.fsync(inner)  # its record is deleted next: the file must not come back after a power cut
        except OSError as error:
            unlinked = [_result_of_error(key, error) for key in together]
        results += unlinked
    return results


def stat_file(root: int, path: str) -> os.stat_result | None:
    """Return the status of a regular file below an open directory, None where there is none."""
    parent, _, name = path.rpartition("/")
    try:
        with open_folder(root, parent.split("/") if parent else []) as inner:
            status = os.stat(name, dir_fd=inner, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOENT or error.errno in ABOUT_NAME | {errno.EBUSY}:
            return None
        raise
    return status if stat.S_ISREG(status.st_mode) else None


def _unlink(inner: int, key: str, seen: str) -> KeyResult:
    name = key.rpartition("/")[2]
    if not name:
        return KeyResult(key=key, outcome=KeyOutcome.FAILED, reason="the key names a directory; only files are deleted")
    try:
        status = os.stat(name, dir_fd=inner, follow_symlinks=False)
        if not stat.S_ISREG(status.st_mode):
            return KeyResult(key=key, outcome=KeyOutcome.FAILED, reason="not a regular file (a directory or a link)")
        if is_rewritten(written := as_written(status.st_mtime), seen):
            return KeyResult(key=key, outcome=KeyOutcome.CHANGED, reason=rewritten_text(written, seen))
        os.unlink(name, dir_fd=inner)
    except OSError as error:
        return _result_of_error(key, error)
    return KeyResult(key=key, outcome=KeyOutcome.DELETED, bytes=status.st_size)


def _result_of_error(key: str, error: OSError) -> KeyResult:
    """Return the result of a key for an error about it; raise an error about the disk."""
    if error.errno == errno.ENOENT:
        return KeyResult(key=key, outcome=KeyOutcome.ABSENT)
    if error.errno in _ABOUT_KEY:
        return KeyResult(key=key, outcome=KeyOutcome.FAILED, reason=f"{error.strerror}")
    raise error


def _open(start: int, folders: Sequence[str]) -> int:
    fd = os.dup(start)
    for name in folders:
        try:
            inner = os.open(name, _FOLDER, dir_fd=fd)
        except NotADirectoryError as error:
            # Linux reports this error for a link and for a file. Nothing is below a file, but a link leads elsewhere.
            if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, f"{name} is a symbolic link, which is not followed") from error
            raise
        finally:
            os.close(fd)
        fd = inner
    return fd
