"""File operations below a directory that cannot be led out of it.

Every path component is opened relative to the one before and without following symbolic links, so neither a link that
lies there nor one that is put there meanwhile takes a listing or an unlink to another place.
"""

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from sexton.storage.model import KeyOutcome, KeyResult

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ABOUT_KEY = {errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EBUSY}
"""Errors that blame one key. Any other one (EIO, EROFS, ESTALE, ...) blames the disk, and so the vault."""


class NoPlace(Exception):
    """The directory that a vault consists of is not there."""


@contextmanager
def place(path: str, folders: Sequence[str] = ()) -> Iterator[int]:
    """Open a vault's location (the operator's word: links in it are followed) and go down its prefix (not followed).

    Raises:
        NoPlace: a part of it is missing or is no directory.
    """
    try:
        location = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fd = _open(location, folders)
        finally:
            os.close(location)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            raise NoPlace(f"{path}/{'/'.join(folders)}: {error.strerror}") from error
        raise
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def folder(start: int, folders: Sequence[str]) -> Iterator[int]:
    """Open a directory below an open one; raises ``OSError`` ELOOP where a component is a symbolic link."""
    fd = _open(start, folders)
    try:
        yield fd
    finally:
        os.close(fd)


def make_folders(start: int, folders: Sequence[str]) -> None:
    """Make the directories below an open one that are missing, durably."""
    for depth, name in enumerate(folders):
        with folder(start, folders[:depth]) as parent:
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=parent)
            os.fsync(parent)


def walk(start: int, path: str, stem: str = "", *, deep: bool = True) -> Iterator[tuple[str, int, float]]:
    """Yield (key, bytes, last write in seconds since 1970) of the files below an open directory, in byte order of keys.

    Holds the names of one directory per level, not more. Symbolic links, sockets and the like are no objects.

    Args:
        start: the directory.
        path: what its keys begin with: empty or ending with ``/``.
        stem: what names in it (not below) must begin with.
        deep: whether to go down into directories.
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
        # What goes away while we look was not there.
        with suppress(FileNotFoundError):
            if name.endswith("/"):
                if not deep:
                    continue
                with folder(start, [name[:-1]]) as inner:
                    yield from walk(inner, path + name)
            else:
                found = os.stat(name, dir_fd=start, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode):
                    yield path + name, found.st_size, found.st_mtime


def folders_in(start: int, path: str) -> list[str]:
    """Return the directories directly in an open one, as keys begin with them."""
    with os.scandir(start) as entries:
        names = [os.fsencode(entry.name) for entry in entries if entry.is_dir(follow_symlinks=False)]
    return sorted(f"{path}{name.decode()}/" for name in names)


def unlink_together(root: int, parent: str, keys: Sequence[str]) -> list[KeyResult]:
    """Unlink files of one directory, durably; the directory stays.

    An empty directory is left, because a writer may have made it a moment ago and be about to create its file there.

    Args:
        root: the vault's directory.
        parent: path of the directory below it, empty for itself.
        keys: paths of the files below ``root``, all directly in ``parent``.

    Raises:
        OSError: the disk is at fault; nothing is known of the keys.
    """
    try:
        with folder(root, parent.split("/") if parent else []) as inner:
            results = [_unlink(inner, key) for key in keys]
            os.fsync(inner)  # the record goes next; after a power cut the file must not be back
            return results
    except OSError as error:
        return [_verdict(key, error) for key in keys]


def look(root: int, path: str) -> os.stat_result | None:
    """Return what is known of a regular file below an open directory, None where there is none."""
    parent, _, name = path.rpartition("/")
    try:
        with folder(root, parent.split("/") if parent else []) as inner:
            found = os.stat(name, dir_fd=inner, follow_symlinks=False)
    except OSError as error:
        if error.errno == errno.ENOENT or error.errno in _ABOUT_KEY - {errno.EACCES, errno.EPERM}:
            return None
        raise
    return found if stat.S_ISREG(found.st_mode) else None


def _unlink(inner: int, key: str) -> KeyResult:
    name = key.rpartition("/")[2]
    if not name:
        return KeyResult(key=key, outcome=KeyOutcome.FAILED, reason="names a directory; only files are deleted")
    try:
        found = os.stat(name, dir_fd=inner, follow_symlinks=False)
        if not stat.S_ISREG(found.st_mode):
            return KeyResult(key=key, outcome=KeyOutcome.FAILED, reason="not a regular file (a directory or a link)")
        os.unlink(name, dir_fd=inner)
    except OSError as error:
        return _verdict(key, error)
    return KeyResult(key=key, outcome=KeyOutcome.DELETED, bytes=found.st_size)


def _verdict(key: str, error: OSError) -> KeyResult:
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
            # Linux says the same of a link and of a file; below a file is nothing, below a link is another place.
            if stat.S_ISLNK(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise OSError(errno.ELOOP, f"{name} is a symbolic link, which is not followed") from error
            raise
        finally:
            os.close(fd)
        fd = inner
    return fd
