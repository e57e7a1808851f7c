"""A storage backend: copies of tablets, their versions and binlogs, and its reports to Sexton.

A *version* of a tablet is a file of rows. Beside it is its *binlog*, the same rows once more: it repairs other copies
that lack the version, and feeds consumers. Sexton's backend worker removes binlogs, by the layout that
``sexton/replication/agent/model.py`` describes; it never touches the files of versions.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from examples.minidb.manifests import sync, write
from examples.minidb.metastore import MetaStore
from examples.minidb.rowsets import MiniDBError
from sexton.client import ReplicaReport, Sexton, TabletReport

FIRST = 0
"""The version with which each copy is created: it has no rows and no binlog."""


class Backend:
    """One storage node, over its directory. A test raises an exception as a crash, and then calls ``restart``."""

    def __init__(self, name: str, client: Sexton, directory: Path, instance: str = "") -> None:
        """Start it.

        Args:
            name: of the node.
            client: with a token of scope ``node:NAME@INSTANCE``.
            directory: its data directory, which exists.
            instance: the name of the database in Sexton.
        """
        self.name, self.directory = name, directory
        self._client, self._instance = client, instance
        self._meta = MetaStore(directory, name)
        self.restart()

    def restart(self) -> None:
        """Start again, after a crash or a regular stop."""
        for partial in self.directory.rglob("*.new"):
            partial.unlink()  # the write of this file was interrupted
        # Durable before the first report: if two starts had one number, a late report of the earlier start would count,
        # and claim versions that are lost since.
        self._boot, self._sequence = int(self._meta.get("boot") or 0) + 1, 0
        self._meta.put({"boot": str(self._boot)})

    def create(self, uid: str, tablet: str) -> None:
        """Create a copy of a tablet; repeatable. Sexton knows it already, see ``Leader.create_table``."""
        path = self.directory / "data" / uid
        (path / "_binlog").mkdir(parents=True, exist_ok=True)
        for folder in (path, path.parent, self.directory):
            sync(folder)
        if not self.ranges(uid):
            self._write(uid, FIRST, "")
        # Last: the worker takes a registered tablet without a folder for one on a disk that is not mounted.
        self._meta.put({f"tablet_{uid}": json.dumps({"tablet": tablet, "path": f"data/{uid}"})})

    def publish(self, uid: str, version: int, rowset: str, segments: Sequence[str]) -> None:
        """Store a version of a tablet; durable when this returns; repeatable.

        Args:
            uid: of the copy.
            version: its number.
            rowset: its name, the same on all copies; letters, digits, ``.`` and ``-``.
            segments: its rows, in as many files of the binlog.
        """
        if (version, version) in self.ranges(uid):
            return
        tablet = json.loads(self._registered(uid))["tablet"]
        entry = {"version": version, "tablet_id": tablet, "num_segments": len(segments), "rowset_id_v2": rowset}
        name = f"{uid}_{version:020}_{rowset}"
        # Both keys before the first file: files that a crash leaves have keys, and the next cut removes them.
        # Files without keys would stay permanently, and removing a missing file is harmless.
        self._meta.put({f"binlog_meta_{name}": json.dumps(entry), f"binlog_data_{name}": "{}"})
        for n, segment in enumerate(segments):
            write(self._folder(uid) / "_binlog" / f"{rowset}_{n}.dat", segment)
        # The version last: a copy that has a version has its binlog too, and may repair others.
        self._write(uid, version, "".join(segments))

    def report(self) -> None:
        """Report the versions of every copy. A real node does so every minute, and after errors."""
        uids = [key.removeprefix("tablet_") for key in self._meta.keys("tablet_")]
        # Read from disk, where versions are durable. If a version only in memory were reported, its binlogs would be
        # removed everywhere, and after a crash no copy could provide it.
        tablets = tuple(TabletReport(uid=uid, versions=tuple(self.ranges(uid)), bytes=self._size(uid)) for uid in uids)
        self._sequence += 1
        report = ReplicaReport(boot=self._boot, sequence=self._sequence, tablets=tablets)
        self._client.report(self.name, report, instance=self._instance)

    def ranges(self, uid: str) -> list[tuple[int, int]]:
        """Return the versions that a copy has on disk; none: the copy is bad, or on another backend."""
        stems = (file.stem.split("-") for file in self._folder(uid).glob("*-*.dat"))
        return sorted((int(first), int(last)) for first, last in stems)

    def read(self, uid: str) -> dict[int, str]:
        """Return the rows of each version."""
        return {first: self._file(uid, first).read_text() for first, _ in self.ranges(uid)}

    def lose(self, uid: str, version: int) -> None:
        """Lose a version, as disks do."""
        self._file(uid, version).unlink()

    def missing(self, uid: str, upto: int) -> list[int]:
        """Return the versions up to ``upto`` that a copy lacks."""
        return sorted(set(range(upto + 1)) - {first for first, _ in self.ranges(uid)})

    def repair(self, uid: str, source: "Backend", source_uid: str, upto: int) -> list[int]:
        """Repair a copy up to a version from the binlogs of another, ``source_uid`` on ``source``; return the versions.

        Sexton is not called: the next report shows that the copy lacks nothing. Until then every copy retains those
        binlogs, so each of them can provide them.

        Raises:
            MiniDBError: a binlog is removed: only a full copy helps, see ``copy``.
        """
        missing_versions = self.missing(uid, upto)
        for version in missing_versions:
            self._write(uid, version, source.binlog(source_uid, version))
        return missing_versions

    def copy(self, uid: str, source: "Backend", source_uid: str) -> None:
        """Copy all versions of another copy: slow, and correct whatever was purged."""
        for version, rows in source.read(source_uid).items():
            self._write(uid, version, rows)

    def binlog(self, uid: str, version: int) -> str:
        """Return the rows of a version from its binlog; raises ``MiniDBError`` if that is removed."""
        keys = self._meta.keys(f"binlog_meta_{uid}_{version:020}_")
        entry = json.loads((self._meta.get(keys[0]) if keys else None) or "null")
        try:
            if entry is not None:
                names = [f"{entry['rowset_id_v2']}_{n}.dat" for n in range(entry["num_segments"])]
                return "".join((self._folder(uid) / "_binlog" / name).read_text() for name in names)
        except FileNotFoundError:
            pass  # the worker is removing it: files before keys
        raise MiniDBError(f"backend {self.name} has no binlog of version {version} of {uid}")

    def forget(self, uid: str) -> bool:
        """Remove a copy whose table is dropped; return whether it is removed.

        Its binlogs must be removed first: the worker removes nothing of a tablet that is not registered, because it
        cannot know its folder. They would stay permanently.
        """
        if self._meta.keys(f"binlog_meta_{uid}_"):
            return False
        if (folder := self._folder(uid)).is_dir():
            for file in [*folder.glob("*.dat"), *folder.glob("_binlog/*")]:
                file.unlink()
            (folder / "_binlog").rmdir()
            folder.rmdir()
        self._meta.remove(f"tablet_{uid}")
        return True

    def _write(self, uid: str, version: int, rows: str) -> None:
        write(self._file(uid, version), rows)

    def _file(self, uid: str, version: int) -> Path:
        return self._folder(uid) / f"{version}-{version}.dat"

    def _folder(self, uid: str) -> Path:
        return self.directory / "data" / uid

    def _size(self, uid: str) -> int:
        return sum(file.stat().st_size for file in self._folder(uid).glob("*-*.dat"))

    def _registered(self, uid: str) -> str:
        value = self._meta.get(f"tablet_{uid}")
        if value is None:
            raise MiniDBError(f"backend {self.name} has no copy {uid}")
        return value
