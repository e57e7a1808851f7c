"""What an attachment to a DuckLake consists of, and whether one is whole."""

from typing import NamedTuple
from urllib.parse import urlsplit

from sexton.kernel.errors import BadInput
from sexton.storage.model import VaultSpec

VERSIONS = ("1.0",)
"""Versions of DuckLake's catalog whose tables the attachment reads and watches."""
OPTION, OPTION_VALUE = "delete_older_than", "100 years"
"""The option of the lake that keeps its own cleaners from deleting files, because Sexton deletes them."""
VIEW, DIRECTORIES = "sexton_live", "sexton_directory"
"""The live view, and the one that it reads: of the directory of each table."""
TRIGGERS = {
    "sexton_scheduled": "ducklake_files_scheduled_for_deletion",
    "sexton_data_file": "ducklake_data_file",
    "sexton_delete_file": "ducklake_delete_file",
}
"""Trigger → the table of the lake whose inserted rows it reads."""
FILE_TABLES = {"ducklake_data_file": "data_file_id", "ducklake_delete_file": "delete_file_id"}
"""The tables in which the lake registers files → the column of a file's number."""
KEPT = "sexton_kept"
"""The table of what the lake had before it was attached: its own value of the option."""
KEY_PATTERN = r"(?:.*/)?ducklake-(?P<record>[0-9a-f-]{36})(?:-delete)?\.(?:parquet|puffin)"
"""The keys of files that DuckLake names itself; ``record``: its UUID. Files of other names are never orphans."""
ELSEWHERE = "_elsewhere"
"""The vault of files that the lake names by a path outside of its data path: no vault may have such a name."""


class Lake(NamedTuple):
    """One attached lake. ``schema``: of its catalog's tables. ``data_path``: ends with ``/``."""

    instance: str
    vault: str
    schema: str
    data_path: str
    writers: tuple[str, ...] = ()
    """Roles that write to the lake."""
    reader: str = ""
    """The login that reads the live view."""


class LakeFacts(NamedTuple):
    """What is found in the catalog of a lake."""

    version: str
    data_path: str
    option: str
    triggers: frozenset[str]
    """Those of ``TRIGGERS`` that are there and enabled."""
    has_view: bool
    scheduled: int
    """Rows of the lake's own list of files to delete; while it is attached the list stays empty."""


def problems(facts: LakeFacts, data_path: str) -> list[str]:
    """Return why a lake, attached with this data path, is not attached as it should be; nothing: it is. Pure."""
    reasons = [reason for reason in (missing_triggers(facts.triggers),) if reason]
    if not facts.has_view:
        reasons.append(f"the view {VIEW} is missing")
    if facts.version not in VERSIONS:
        reasons.append(f"its catalog has version {facts.version}; known: {', '.join(VERSIONS)}")
    if facts.data_path != data_path:
        reasons.append(f"its data path is {facts.data_path}, but it was attached with {data_path}")
    if facts.option != OPTION_VALUE:
        reasons.append(f"its option {OPTION} is {facts.option or 'not set'}, so its own cleaners may delete files")
    if facts.scheduled:
        reasons.append(f"{facts.scheduled:,} files are still in its own list of files to delete")
    return reasons


def missing_triggers(enabled: frozenset[str]) -> str:
    """Return which triggers are missing, as a sentence; empty: none. Pure."""
    missing = sorted(TRIGGERS.keys() - enabled)
    return f"triggers are missing or disabled: {', '.join(missing)}" if missing else ""


def view_of(schema: str) -> str:
    """Return the live view of a lake, as an instance names it. Pure."""
    return f"{schema}.{VIEW}"


def vault_of(instance: str, name: str, data_path: str) -> VaultSpec:
    """Return the vault whose keys are the paths of a lake's files below its data path. Pure.

    Raises:
        BadInput: Sexton cannot delete in such a place, or another place has the same files.
    """
    url = urlsplit(data_path)
    if not data_path.endswith("/"):
        raise BadInput(f"the data path {data_path!r} does not end with /, so another place may begin with it")
    path = data_path.removeprefix("s3://")
    if "//" in path or "/./" in path or "/../" in path or "?" in path:
        raise BadInput(f"the data path {data_path!r} has //, . or .. in it, so its files have two paths; correct it")
    if url.scheme == "s3" and url.netloc:
        prefix = data_path.removeprefix(f"s3://{url.netloc}/")
        return VaultSpec(instance=instance, name=name, kind="s3", location=url.netloc, prefix=prefix)
    if data_path.startswith("/") and len(data_path) > 1:
        return VaultSpec(instance=instance, name=name, kind="local", location=data_path)
    raise BadInput(f"the data path {data_path!r} is neither s3://BUCKET/PREFIX/ nor the absolute path of a directory")
