"""A storage backend: copies of tablets, their versions, and the binlogs of these; and what it says of them to Sexton.

A *version* of a tablet is a file of rows. Beside it is its *binlog*, the same rows once more: from there another copy
is repaired that lacks the version, and consumers are fed. Binlogs are what Sexton's worker beside the node removes, by
the layout that ``sexton/replication/agent/layout.py`` describes; the files of versions it never looks at.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from examples.minidb.manifests import sync, write
from examples.minidb.metastore import MetaStore
from examples.minidb.rowsets import MiniDBError
from sexton.client import BackendReport, ReportedTablet, Sexton

FIRST = 0
"""The version that each copy is made with: it has no rows and no binlog."""


class Backend:
    """One storage node, over its directory. A crash is an exception; ``restart`` is what comes after it."""

    def __init__(self, name: str, client: Sexton, directory: Path, instance: str | None = None) -> None:
        """Start it.

        Args:
            name: of the node.
            client: with a token of scope ``node:NAME``.
            directory: its data directory, which is there.
            instance: as which Sexton knows the database.
        """
        self.name, self.directory = name, directory
        self._client, self._instance = client, instance
        self._meta = MetaStore(directory, name)
        self.restart()

    def restart(self) -> None:
        """Start again, after a crash or an ordinary end."""
        for half in self.directory.rglob("*.new"):
            half.unlink()  # a file that was under way, and is none
        # Durable before the first report: of two starts with one number the reports could not be told apart, and one of
        # the old start that arrives late would say that we have what we have lost since.
        self._boot, self._sequence = int(self._meta.get("boot") or 0) + 1, 0
        self._meta.put({"boot": str(self._boot)})

    def create(self, uid: str, tablet: str) -> None:
        """Make a copy of a tablet; repeatable. Sexton knows it already, see ``Leader.create_table``."""
        path = self.directory / "data" / uid
        (path / "_binlog").mkdir(parents=True, exist_ok=True)
        for folder in (path, path.parent, self.directory):
            sync(folder)
        if not self.ranges(uid):
            self._write(uid, FIRST, "")
        # Last: of a registered tablet without a folder the worker thinks that its disk is not mounted.
        self._meta.put({f"tablet_{uid}": json.dumps({"tablet": tablet, "path": f"data/{uid}"})})

    def publish(self, uid: str, version: int, rowset: str, segments: Sequence[str]) -> None:
        """Take a version of a tablet; durable when this returns; repeatable.

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
        # Both keys before the first file: what a crash leaves has a name, and goes with the next cut above it. Files
        # without keys would stay for ever, and a file that is missing is none too many for whoever removes it.
        self._meta.put({f"binlog_meta_{name}": json.dumps(entry), f"binlog_data_{name}": "{}"})
        for n, segment in enumerate(segments):
            write(self._folder(uid) / "_binlog" / f"{rowset}_{n}.dat", segment)
        # The version last: a copy that has it has its binlog, and others may be repaired from here.
        self._write(uid, version, "".join(segments))

    def report(self) -> None:
        """Say which versions every copy has. A real node does so every minute, and when something has gone wrong."""
        uids = [key.removeprefix("tablet_") for key in self._meta.keys("tablet_")]
        # Read from the disk, where they are durable. Of a version that were only in memory we would say that we have
        # it: its binlogs would go everywhere, and after a crash there would be nowhere to take it from.
        told = tuple(ReportedTablet(uid=uid, versions=tuple(self.ranges(uid)), bytes=self._size(uid)) for uid in uids)
        self._sequence += 1
        report = BackendReport(boot=self._boot, sequence=self._sequence, tablets=told)
        self._client.report(self.name, report, self._instance)

    def ranges(self, uid: str) -> list[tuple[int, int]]:
        """Return the versions that a copy has, as the disk has them; none: the copy is bad, or not here."""
        found = (file.stem.split("-") for file in self._folder(uid).glob("*-*.dat"))
        return sorted((int(first), int(last)) for first, last in found)

    def read(self, uid: str) -> dict[int, str]:
        """Return version → its rows."""
        return {first: self._file(uid, first).read_text() for first, _ in self.ranges(uid)}

    def lose(self, uid: str, version: int) -> None:
        """Lose a version, as disks do."""
        self._file(uid, version).unlink()

    def missing(self, uid: str, upto: int) -> list[int]:
        """Return the versions up to one that a copy lacks."""
        return sorted(set(range(upto + 1)) - {first for first, _ in self.ranges(uid)})

    def repair(self, uid: str, source: "Backend", its: str, upto: int) -> list[int]:
        """Take what a copy lacks, up to a version, from the binlogs of another one, ``its`` on ``source``.

        Nothing changes hands by this with Sexton: the next report says that it needs no more. Until then every copy
        keeps those binlogs, so whoever is asked has them. Returns the versions.

        Raises:
            MiniDBError: a binlog is gone: only a full copy helps, see ``copy``.
        """
        lacks = self.missing(uid, upto)
        for version in lacks:
            self._write(uid, version, source.binlog(its, version))
        return lacks

    def copy(self, uid: str, source: "Backend", its: str) -> None:
        """Take everything that a copy lacks from another one's versions: slow, and right whatever was purged."""
        for version, rows in source.read(its).items():
            self._write(uid, version, rows)

    def binlog(self, uid: str, version: int) -> str:
        """Return the rows of a version from its binlog; ``MiniDBError`` where it is gone."""
        keys = self._meta.keys(f"binlog_meta_{uid}_{version:020}_")
        entry = json.loads((self._meta.get(keys[0]) if keys else None) or "null")
        try:
            if entry is not None:
                names = [f"{entry['rowset_id_v2']}_{n}.dat" for n in range(entry["num_segments"])]
                return "".join((self._folder(uid) / "_binlog" / name).read_text() for name in names)
        except FileNotFoundError:
            pass  # the worker is at it: files go before keys
        raise MiniDBError(f"backend {self.name} has no binlog of version {version} of {uid}")

    def forget(self, uid: str) -> bool:
        """Remove a copy whose table is dropped; tell whether it is gone.

        Not before its binlogs are: of a tablet that is not registered the worker removes nothing, for it cannot know
        where that was. They would stay for ever.
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
        found = self._meta.get(f"tablet_{uid}")
        if found is None:
            raise MiniDBError(f"backend {self.name} has no copy {uid}")
        return found
