"""Write the triggers of a DuckLake in SQLite, which has one writer at a time: each sees every claim. Pure.

SQLite parses the whole schema for each connection, and DuckLake opens two connections for each file of a commit: a KB
of these views and triggers makes a commit of small files some 4 % slower. So the view ``sexton_file`` has each
expression about a file once. The triggers of the lake's tables pass the inserted row to it, and its own triggers act.
"""

from sexton.owners.ducklake.lake_sql import ENDINGS, UNCLEAR, LakeSql, quoted
from sexton.owners.ducklake.model import DIRECTORIES, ELSEWHERE, FILE_TABLES, FILES, TRIGGERS

FIRST_KEY = "json_extract(m.keys, '$[0]')"
REFUSAL = "SX001 collected: a round is deleting this file, or has deleted it; roll this commit back"
SCHEDULED = TRIGGERS["sexton_scheduled"]
KINDS = {SCHEDULED: "scheduled", **{table: table for table in FILE_TABLES}}
"""Table of the lake → the kind of its rows in the view."""
IS_REGISTERED = f"kind <> '{KINDS[SCHEDULED]}'"
"""The condition that a row of the view is one of a registered file."""
SAME_UUID = "f.lookup = NEW.uuid AND f.uuid = NEW.uuid"
"""The condition that a row ``f`` of the view has the UUID of the file."""
IS_MARK = "id >= NEW.mark AND id < NEW.mark || '~' AND (NEW.uuid IS NOT NULL OR keys = json_array(NEW.key))"
"""The condition that a mark is of the file; no id has a tilde."""


def lookup(path: str) -> str:
    """Return the expression of the indexes for a path, relative or not: the UUID, if DuckLake named the file.

    The last 60 characters of such a path have its UUID, and no room for another ``ducklake-`` before it.
    """
    end = f"substr({path}, -60)"
    return f"substr({end}, instr({end}, 'ducklake-') + 9, 36)"


class SqliteLake(LakeSql):
    """The SQL of a lake in SQLite."""

    def create_views(self) -> list[str]:
        """Return the view of the files that the lake registers or lists to delete.

        ``id``: its number. ``raw``: its path as the lake has it. ``path``: NULL where its table is unknown.
        ``mark``: the id of its mark, which ends with the number if DuckLake did not name it.
        """
        directory = f"(SELECT d.path FROM {DIRECTORIES} d WHERE d.table_id = f.table_id)"
        rows = [self._rows(table, number, "file_size_bytes", directory) for table, number in FILE_TABLES.items()]
        rows.append(self._rows(SCHEDULED, "data_file_id", "NULL", self.root))
        # SQLite has no hash function: the last bytes of the path take the place of a digest.
        mark = "coalesce(uuid, 'file-' || lower(hex(substr(CAST(path AS BLOB), -40))) || '-')"
        return [
            f"""CREATE VIEW {FILES} AS
SELECT *, CASE WHEN is_placed THEN {quoted(self.lake.vault)} ELSE '{ELSEWHERE}' END AS vault,
    {self.key("path", "is_placed")} AS key, {mark} AS mark
FROM (SELECT *, is_inside AND NOT is_unclear AS is_placed
FROM (SELECT *, {self.uuid("raw")} AS uuid,
    {self.is_inside("path")} AS is_inside, {self.is_unclear("path")} AS is_unclear
FROM ({" UNION ALL ".join(rows)})))"""
        ]

    def live_files(self) -> str:
        """Return the registered files of the view; the fence lets SQLite compute each expression once for a row."""
        files = f"SELECT kind, id, bytes, path, is_inside, is_unclear IS NOT 0 AS is_unknown FROM {FILES}"
        vault = f"CASE WHEN is_unknown OR is_inside THEN {quoted(self.lake.vault)} ELSE '{ELSEWHERE}' END"
        return (
            f"SELECT kind, CAST(id AS text) AS id, {vault} AS vault, "
            f"CASE WHEN is_unknown THEN '' ELSE {self.key('path', 'is_inside')} END AS key, bytes "
            f"FROM ({files} WHERE {IS_REGISTERED} LIMIT -1 OFFSET 0)"
        )

    def registered_files(self) -> str:
        """Return those of the view."""
        return f"SELECT path, uuid FROM {FILES} WHERE {IS_REGISTERED}"

    def indexes(self) -> dict[str, str]:
        """Return one of tables, and one of each table of files: a UUID is found by its first column, a path by both."""
        files = {f"sexton_{table}_path": f"{table} ({lookup('path')}, path)" for table in FILE_TABLES}
        return {"sexton_table_id": "ducklake_table (table_id)"} | files

    @property
    def each_once(self) -> str:
        """Return nothing: each file looks up its directory."""
        return ""

    def create_triggers(self) -> list[str]:
        """Return triggers that pass each row to the view, and the triggers of the view."""
        numbers = {SCHEDULED: "data_file_id", **FILE_TABLES}
        passing = [
            f"CREATE TRIGGER {trigger} AFTER INSERT ON {table} BEGIN "
            f"INSERT INTO {FILES} SELECT * FROM {FILES} "
            f"WHERE kind = '{KINDS[table]}' AND id = NEW.{numbers[table]}; END"
            for trigger, table in TRIGGERS.items()
        ]
        of_view = f"CREATE TRIGGER {{}} INSTEAD OF INSERT ON {FILES} WHEN {{}} BEGIN{{}}\nEND"
        return [
            *passing,
            of_view.format("sexton_file_scheduled", f"NOT NEW.{IS_REGISTERED}", self._scheduled()),
            of_view.format("sexton_file_registered", f"NEW.{IS_REGISTERED}", self._referenced()),
        ]

    def drop_triggers(self) -> list[str]:
        """Return a statement for each trigger of a table; those of the view end with it."""
        return [f"DROP TRIGGER IF EXISTS {trigger}" for trigger in TRIGGERS]

    def pass_again(self) -> list[str]:
        """Return statements that use a temporary table."""
        return [
            f"CREATE TEMP TABLE sexton_again AS SELECT * FROM {SCHEDULED}",
            f"DELETE FROM {SCHEDULED}",
            f"INSERT INTO {SCHEDULED} SELECT * FROM sexton_again",
            "DROP TABLE sexton_again",
        ]

    def take_back(self) -> list[str]:
        """Return two statements; a trigger of Sexton refuses the second for a claimed mark."""
        instance, vault = quoted(self.lake.instance), quoted(self.lake.vault)
        path, registered = self.marked_path(), f"FROM {FILES} WHERE {IS_REGISTERED} AND"
        uuid = self.uuid(path)
        by_uuid = f"{uuid} IN (SELECT uuid {registered} uuid IS NOT NULL)"
        by_path = f"{path} IN (SELECT path {registered} path IS NOT NULL)"
        return [
            f"INSERT INTO {SCHEDULED} (data_file_id, path, path_is_relative, schedule_start) "
            f"SELECT CAST(m.owner_txn AS bigint), {self.scheduled_path(FIRST_KEY)}, m.vault = {vault}, "
            "strftime('%Y-%m-%d %H:%M:%f+00', m.marked_at / 1000.0, 'unixepoch') "
            f"FROM {self.marks} AND NOT CASE WHEN {uuid} IS NULL THEN {by_path} ELSE {by_uuid} END",
            f"DELETE FROM sexton_mark WHERE instance = {instance}",
        ]

    @property
    def marks(self) -> str:
        """The table in the same file."""
        return f"sexton_mark m WHERE m.instance = {quoted(self.lake.instance)} AND m.owner_txn IS NOT NULL"

    def marked_path(self) -> str:
        """Return the path of the only key."""
        return self.whole_path(FIRST_KEY)

    def octets(self, text: str) -> str:
        """Return the length of the bytes."""
        return f"length(CAST({text} AS BLOB))"

    def rest(self, text: str, characters: int) -> str:
        """Return a call of substr."""
        return f"substr({text}, {characters + 1})"

    def position(self, path: str, part: str) -> str:
        """Return a call of instr."""
        return f"instr({path}, {quoted(part)})"

    def uuid(self, path: str) -> str:
        """Return a query: what follows ``/ducklake-`` in a name, if a known ending follows its first 36 characters."""
        name = f"SELECT substr('/' || {path}, -{len('/ducklake-') + 36 + max(map(len, ENDINGS))}) AS name"
        rest = f"SELECT substr(name, nullif(instr(name, '/ducklake-'), 0) + 10) AS rest FROM ({name})"
        is_hexadecimal = "substr(rest, 1, 36) NOT GLOB '*[^0-9a-f-]*'"
        return f"(SELECT substr(rest, 1, 36) FROM ({rest}) WHERE substr(rest, 37) IN {ENDINGS} AND {is_hexadecimal})"

    def _rows(self, table: str, number: str, bytes_: str, directory: str) -> str:
        """Return the query of the rows of a table of the lake, for the view."""
        path = f"CASE WHEN path_is_relative THEN {directory} || path ELSE path END"
        return (
            f"SELECT '{KINDS[table]}' AS kind, {number} AS id, {bytes_} AS bytes, "
            f"path AS raw, {lookup('path')} AS lookup, {path} AS path FROM {table} f"
        )

    def _scheduled(self) -> str:
        """Return what happens when the lake lists a file to delete: Sexton's mark takes the place of its row.

        A waiting mark of the file is replaced: the retention begins when the last reference ends.
        """
        instance = quoted(self.lake.instance)
        id_ = "NEW.mark || CASE WHEN NEW.uuid IS NULL THEN NEW.id ELSE '' END"
        is_marked = "SELECT 1 FROM {} m WHERE m.instance = " + f"{instance} AND m.id = g.mark"
        return f"""
{self._take_back("state = 'MARKED'")}
INSERT INTO sexton_mark (instance, kind, id, vault, keys, owner_txn, parent_kind, parent_id)
SELECT {instance}, CASE WHEN EXISTS (SELECT 1 FROM ducklake_table t WHERE t.table_id = g.table_id
        AND t.end_snapshot IS NULL) THEN 'compacted' ELSE 'dropped' END,
    g.mark, NEW.vault, json_array(NEW.key), CAST(NEW.id AS text),
    CASE WHEN g.table_id IS NOT NULL THEN 'table' END, CAST(g.table_id AS text)
FROM (SELECT {id_} AS mark, {self.nearest("table_id", "NEW.path")} AS table_id) g
WHERE NOT {self._is_referenced()}  -- the last reference marks
    AND NOT EXISTS ({is_marked.format("sexton_mark")}) AND NOT EXISTS ({is_marked.format("sexton_mark_history")});
DELETE FROM {SCHEDULED} WHERE data_file_id = NEW.id;"""

    def _referenced(self) -> str:
        """Return what happens when the lake registers a file: its marks are taken back, or the lake's commit fails."""
        instance = quoted(self.lake.instance)
        is_orphan = "kind = 'orphan' AND parent_kind = 'rowset' AND parent_id = NEW.uuid"
        is_other = f"m.instance = {instance} AND (m.id = NEW.uuid OR {is_orphan}) AND {FIRST_KEY} <> NEW.key"
        other_row = f"EXISTS (SELECT 1 FROM {FILES} f WHERE {SAME_UUID} AND f.path <> NEW.path)"
        other_mark = f"EXISTS (SELECT 1 FROM sexton_mark m WHERE {is_other})"
        history = f"SELECT 1 FROM sexton_mark_history WHERE discarded IS NULL AND instance = {instance} AND"
        return f"""
SELECT RAISE(ABORT, {quoted(UNCLEAR)})
WHERE NEW.is_unclear OR NEW.uuid IS NOT NULL AND (NOT NEW.is_inside OR {other_row} OR {other_mark});
{self._take_back("kind <> 'prepared'")}
DELETE FROM sexton_mark WHERE instance = {instance} AND {is_orphan};
SELECT RAISE(ABORT, '{REFUSAL}') WHERE EXISTS ({history} {IS_MARK} UNION ALL {history} {is_orphan});"""

    def _take_back(self, condition: str) -> str:
        """Return the statement that deletes the marks of a file; a trigger of Sexton refuses claimed ones."""
        return f"DELETE FROM sexton_mark WHERE instance = {quoted(self.lake.instance)} AND {condition} AND {IS_MARK};"

    def _is_referenced(self) -> str:
        """Return the condition that a row of the lake still names the file: by its UUID, if it has one, or its path.

        SQLite looks up the whole path, and the rest of it below each table's directory that it begins with. It searches
        the tables for them: for more than one value it would read the whole view.
        """
        is_below = "held.path IS below AND coalesce(held.table_id = place.table_id, 0) = held.path_is_relative"
        by_path = " OR ".join(
            f"EXISTS (SELECT 1 FROM {table} held WHERE {lookup('held.path')} = {lookup('below')} AND {is_below})"
            for table in FILE_TABLES
        )
        directories = f"SELECT NULL AS table_id, '' AS path UNION ALL SELECT table_id, path FROM {DIRECTORIES}"
        places = (
            f"SELECT table_id, substr(NEW.path, length(path) + 1) AS below FROM ({directories}) "
            "WHERE substr(NEW.path, 1, length(path)) = path"
        )
        by_uuid = f"EXISTS (SELECT 1 FROM {FILES} f WHERE {SAME_UUID} AND f.{IS_REGISTERED})"
        return (
            f"CASE WHEN NEW.uuid IS NOT NULL THEN {by_uuid} "
            f"ELSE EXISTS (SELECT 1 FROM ({places}) place WHERE {by_path}) END"
        )
