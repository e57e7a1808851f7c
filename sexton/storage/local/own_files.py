"""Read and write Sexton's own files in a local vault, below its ``_sexton/``; a write is durable and all or nothing."""

import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from itertools import groupby

from sexton.storage.local.files import make_folders, open_folder, open_location, unlink_together, walk
from sexton.storage.model import PAGE_KEYS, RESERVED_PREFIX, KeyResult, ListedObject
from sexton.storage.policy import DRAFT, check_own, check_own_prefix, is_own

_FOLDER = RESERVED_PREFIX.removesuffix("/")


def write_file(
    path: str, folders: Sequence[str], name: str, data: bytes, publish: Callable[[str, int], None] | None = None
) -> None:
    """Write a file, and create its folder where it is missing.

    The file is complete before it gets its name: a crash leaves a complete file or none.

    Args:
        path: the vault's location.
        folders: the folders from there to the file.
        name: of the file.
        data: its bytes.
        publish: called with the draft's name and the open folder to give the draft its final name; by default the draft
            replaces an older file.
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
            except OSError:
                os.unlink(draft, dir_fd=inner)
                raise
            if publish is None:
                os.replace(draft, name, src_dir_fd=inner, dst_dir_fd=inner)
            else:
                publish(draft, inner)
            os.fsync(inner)


def write(path: str, folders: Sequence[str], name: str, data: bytes) -> None:
    """Write one of Sexton's own files."""
    check_own(name)
    *inner, last = name.split("/")
    write_file(path, [*folders, _FOLDER, *inner], last, data)


def read(path: str, folders: Sequence[str], name: str) -> bytes | None:
    """Return one of Sexton's own files, None where it does not exist."""
    check_own(name)
    *inner, last = name.split("/")
    with open_location(path) as location:
        try:
            with open_folder(location, [*folders, _FOLDER, *inner]) as parent:
                file = os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
        except (FileNotFoundError, NotADirectoryError):
            return None
        with os.fdopen(file, "rb") as source:
            return source.read()


def pages(path: str, folders: Sequence[str], prefix: str) -> Iterator[Sequence[ListedObject]]:
    """Yield pages of Sexton's own files whose names begin with a prefix."""
    check_own_prefix(prefix)
    return _pages(path, folders, prefix)


def remove(path: str, folders: Sequence[str], names: Sequence[str]) -> list[KeyResult]:
    """Unlink some of Sexton's own files."""
    for name in names:
        check_own(name)
    with open_location(path) as location:
        results: list[KeyResult] = []
        keys = ["/".join((*folders, _FOLDER, name)) for name in names]
        for parent, group in groupby(keys, lambda key: key.rpartition("/")[0]):
            results += unlink_together(location, parent, list(group))
        return results


def _pages(path: str, folders: Sequence[str], prefix: str) -> Iterator[Sequence[ListedObject]]:
    parent, slash, stem = prefix.rpartition("/")
    page: list[ListedObject] = []
    with open_location(path) as location, ExitStack() as opened:
        try:
            inner = opened.enter_context(
                open_folder(location, [*folders, _FOLDER, *(parent.split("/") if parent else [])])
            )
        except (FileNotFoundError, NotADirectoryError):
            return  # no file was written yet
        # Outside of the try: a folder that changes during the walk must not end the listing early without an error.
        for name, size, _ in walk(inner, parent + slash, stem):
            if is_own(name):
                page.append(ListedObject(key=name, bytes=size))
            if len(page) == PAGE_KEYS:
                yield page
                page = []
    if page:
        yield page
