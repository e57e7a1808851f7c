"""SQL expressions about the files of a DuckLake that its views and triggers share. Pure."""

from dataclasses import dataclass

from sexton.owners.ducklake.model import DIRECTORIES, ELSEWHERE, FILE_TABLES, TRIGGERS, Lake
from sexton.storage.model import RESERVED_PREFIX

ENDINGS = (".parquet", "-delete.parquet", ".puffin", "-delete.puffin")
"""What follows the UUID in the names of files that DuckLake names itself."""
MOST_KEY_BYTES = 1_024
"""Of a key of a mark, as in S3."""
NAME = "('/' || {}.path)"
"""The expression for the name of a file, whose path may be relative: an index has its UUID."""
KEY = "(m.keys ->> 0)"
"""The expression for the only key of a mark ``m``."""


def quoted(value: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + value.replace("'", "''") + "'"


def uuid(path: str) -> str:
    """Return the UUID in the name of a file; NULL: DuckLake did not name it. A regular expression is far slower."""
    cases = []
    for ending in ENDINGS:
        number = f"substr({path}, length({path}) - {len(ending) + 35}, 36)"
        has_name = f"substr({path}, length({path}) - {len(ending) + 45}, 10) = '/ducklake-'"
        ends = f"substr({path}, length({path}) - {len(ending) - 1}) = '{ending}'"
        cases.append(f"WHEN {ends} AND {has_name} AND translate({number}, '0123456789abcdef-', '') = '' THEN {number}")
    return f"CASE {' '.join(cases)} END"


@dataclass(frozen=True)
class LakeSql:
    """The SQL of one lake. ``path`` is always an expression for the whole path of a file."""

    lake: Lake

    def table(self, name: str) -> str:
        """Return the name of a table or view of the lake."""
        return f'"{self.lake.schema}".{name}'

    @property
    def scheduled(self) -> str:
        """The lake's own list of files to delete."""
        return self.table(TRIGGERS["sexton_scheduled"])

    @property
    def root(self) -> str:
        """The data path, as a literal."""
        return quoted(self.lake.data_path)

    @property
    def instance(self) -> str:
        """The instance, as a literal."""
        return quoted(self.lake.instance)

    def indexes(self) -> dict[str, str]:
        """Return two indexes for each table of files, of paths and of UUIDs: name → table and columns."""
        paths = {f"sexton_{table}_path": f"{table} (path)" for table in FILE_TABLES}
        of_name = uuid(NAME.format("f").replace("f.", ""))
        return paths | {f"sexton_{table}_uuid": f"{table} (({of_name}))" for table in FILE_TABLES}

    def is_inside(self, path: str) -> str:
        """Return the condition that a file is below the data path."""
        return f"substr({path}, 1, {len(self.lake.data_path)}) = {self.root}"

    def is_unclear(self, path: str) -> str:
        """Return the condition that a file may have another path, too, or that no mark can name it.

        Clear are absolute local paths and, for a lake in a bucket, ``s3://`` URLs, without ``//``, ``.``, ``..`` and
        parameters; for a lake in a directory also every URL of another scheme than ``file``.
        """
        dots = f"strpos({path}, '/../') > 0 OR strpos({path}, '/./') > 0"
        is_local = f"substr({path}, 1, 1) = '/'"
        local = f"strpos({path}, '//') > 0"
        if self.lake.data_path.startswith("/"):
            other = f"substr({path}, 1, 5) = 'file:' OR strpos({path}, '://') = 0"
        else:
            doubled = f"strpos(substr({path}, 6), '//') > 0"
            other = f"substr({path}, 1, 5) <> 's3://' OR {doubled} OR strpos({path}, '?') > 0"
        most = f"CASE WHEN {self.is_inside(path)} THEN {MOST_KEY_BYTES + len(self.lake.data_path.encode())}"
        is_long = f"octet_length({path}) > {most} ELSE {MOST_KEY_BYTES} END"
        own = self.lake.data_path + RESERVED_PREFIX
        is_own = f"substr({path}, 1, {len(own)}) = {quoted(own)}"
        return f"({is_long} OR {is_own} OR {dots} OR CASE WHEN {is_local} THEN {local} ELSE {other} END)"

    def is_in_vault(self, path: str) -> str:
        """Return the condition that a file is in the lake's vault: below the data path, and under one path only."""
        return f"{self.is_inside(path)} AND NOT {self.is_unclear(path)}"

    def vault(self, path: str) -> str:
        """Return the vault of a file; ``ELSEWHERE`` if Sexton has none for it."""
        return f"CASE WHEN {self.is_in_vault(path)} THEN {quoted(self.lake.vault)} ELSE '{ELSEWHERE}' END"

    def key(self, path: str, is_inside: str = "") -> str:
        """Return the key of a file in its vault; elsewhere: its path without the first slash.

        ``is_inside``: the expression for whether it is in the lake's vault, where that is known already.
        """
        # substr would count the characters of the whole text, and take four times as long.
        below = f"right({path}, -{len(self.lake.data_path)})"
        return f"CASE WHEN {is_inside or self.is_in_vault(path)} THEN {below} ELSE ltrim({path}, '/') END"

    @property
    def marks(self) -> str:
        """The table of marks ``m`` with the condition that they are of this lake, and not orphans."""
        return f"sexton.mark m WHERE m.instance = {self.instance} AND m.owner_txn IS NOT NULL"

    def marked_path(self) -> str:
        """Return the path of the file of a mark ``m``, as rows with an absolute path have it."""
        is_inside = f"m.vault = {quoted(self.lake.vault)}"
        return f"CASE WHEN {is_inside} THEN {self.root} || {KEY} ELSE {self.scheduled_path()} END"

    def scheduled_path(self) -> str:
        """Return the path of the file of a mark ``m``, as the lake's own list has it."""
        is_url = f"strpos({KEY}, '://') > 0"
        return f"CASE WHEN m.vault = {quoted(self.lake.vault)} OR {is_url} THEN {KEY} ELSE '/' || {KEY} END"

    def paths(self, source: str) -> str:
        """Return the query of registered files: ``path``, NULL where its table is unknown, and ``name``, its last part.

        ``source``: a table of files, or rows with its columns.
        """
        return (
            "SELECT CASE WHEN f.path_is_relative THEN d.path || f.path ELSE f.path END AS path, '/' || f.path AS name "
            f"FROM {source} f LEFT JOIN {self.table(DIRECTORIES)} d ON d.table_id = f.table_id"
        )

    def registered_files(self) -> str:
        """Return the query of the registered files: ``path``, and ``uuid``, NULL where DuckLake did not name it."""
        return " UNION ".join(
            f"SELECT path, {uuid('name')} AS uuid FROM ({self.paths(self.table(table))}) f" for table in FILE_TABLES
        )

    def is_referenced(self, path: str, number: str) -> str:
        """Return the condition that a row of the lake still names a file: by its UUID, if it has one, or its path."""
        by_uuid, by_path = [], []
        for files in FILE_TABLES:
            held = f"{self.table(files)} held"  # aliases that no caller has
            below = "held.table_id = place.table_id AND held.path_is_relative"
            by_uuid.append(f"EXISTS (SELECT 1 FROM {held} WHERE {uuid(NAME.format('held'))} = {number})")
            by_path += [
                f"EXISTS (SELECT 1 FROM {held} WHERE held.path = {path})",
                f"EXISTS (SELECT 1 FROM {self.table(DIRECTORIES)} place JOIN {held} ON {below} "
                f"AND held.path = substr({path}, length(place.path) + 1) "
                f"WHERE substr({path}, 1, length(place.path)) = place.path)",
            ]
        return f"CASE WHEN {number} IS NOT NULL THEN {' OR '.join(by_uuid)} ELSE {' OR '.join(by_path)} END"

    def has_another_path(self, path: str, number: str) -> str:
        """Return the condition that a row of the lake names a file of this UUID under another path."""
        same_uuid = f"{uuid(NAME.format('f'))} = {number}"
        of_tables = (
            f"EXISTS (SELECT 1 FROM ({self.paths(self.table(files))} WHERE {same_uuid}) o WHERE o.path <> {path})"
            for files in FILE_TABLES
        )
        return f"({' OR '.join(of_tables)})"
