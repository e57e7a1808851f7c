"""Write the triggers of a DuckLake in SQLite, which has one writer at a time: each sees every claim. Pure."""

from sexton.owners.ducklake.lake_sql import UNCLEAR, LakeSql, quoted
from sexton.owners.ducklake.model import TRIGGERS

FIRST_KEY = "json_extract(m.keys, '$[0]')"
REFUSAL = "SX001 collected: a round is deleting this file, or has deleted it; roll this commit back"


class SqliteLake(LakeSql):
    """The SQL of a lake in SQLite."""

    def create_triggers(self) -> list[str]:
        """Return triggers that run for each row."""
        bodies = [self._scheduled(), self._referenced(), self._referenced()]
        return [
            f"CREATE TRIGGER {trigger} AFTER INSERT ON {table} BEGIN\n{body}\nEND"
            for (trigger, table), body in zip(TRIGGERS.items(), bodies, strict=True)
        ]

    def drop_triggers(self) -> list[str]:
        """Return a statement for each trigger."""
        return [f"DROP TRIGGER IF EXISTS {trigger}" for trigger in TRIGGERS]

    def pass_again(self) -> list[str]:
        """Return statements that use a temporary table."""
        scheduled = TRIGGERS["sexton_scheduled"]
        return [
            f"CREATE TEMP TABLE sexton_again AS SELECT * FROM {scheduled}",
            f"DELETE FROM {scheduled}",
            f"INSERT INTO {scheduled} SELECT * FROM sexton_again",
            "DROP TABLE sexton_again",
        ]

    def take_back(self) -> list[str]:
        """Return two statements; a trigger of Sexton refuses the second for a claimed mark."""
        instance, vault = quoted(self.lake.instance), quoted(self.lake.vault)
        path = self.marked_path()
        return [
            f"INSERT INTO {TRIGGERS['sexton_scheduled']} (data_file_id, path, path_is_relative, schedule_start) "
            f"SELECT CAST(m.owner_txn AS bigint), {self.scheduled_path(FIRST_KEY)}, m.vault = {vault}, "
            "strftime('%Y-%m-%d %H:%M:%f+00', m.marked_at / 1000.0, 'unixepoch') "
            f"FROM {self.marks} AND NOT {self.is_referenced(path, self.uuid(path))}",
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

    def digest(self, text: str) -> str:
        """Return the last 40 bytes: SQLite has no hash function."""
        return f"lower(hex(substr(CAST({text} AS BLOB), -40)))"

    @property
    def fence(self) -> str:
        """The same offset, with a limit that is none: SQLite has no OFFSET without one."""
        return "LIMIT -1 OFFSET 0"

    def position(self, path: str, part: str) -> str:
        """Return a call of instr."""
        return f"instr({path}, {quoted(part)})"

    def paths(self, source: str) -> str:
        """Return the query with a look-up for each file: a join would compute every directory each time."""
        directory = f"(SELECT d.path FROM {self.table('sexton_directory')} d WHERE d.table_id = f.table_id)"
        path = f"CASE WHEN f.path_is_relative THEN {directory} || f.path ELSE f.path END"
        return f"SELECT {path} AS path, '/' || f.path AS name FROM {source} f"

    def is_hexadecimal(self, text: str) -> str:
        """Return a comparison with a pattern."""
        return f"{text} NOT GLOB '*[^0-9a-f-]*'"

    def _scheduled(self) -> str:
        """Return what happens when the lake lists a file to delete: Sexton's mark takes the place of its row.

        A waiting mark of the file is replaced: the retention begins when the last reference ends.
        """
        instance = quoted(self.lake.instance)
        path = f"CASE WHEN NEW.path_is_relative THEN {self.root} || NEW.path ELSE NEW.path END"
        return f"""{self._take_back(path, "state = 'MARKED'")}
    INSERT INTO sexton_mark (instance, kind, id, vault, keys, owner_txn, parent_kind, parent_id)
    SELECT {instance}, CASE WHEN EXISTS (SELECT 1 FROM ducklake_table t WHERE t.table_id = g.table_id
            AND t.end_snapshot IS NULL) THEN 'compacted' ELSE 'dropped' END,
        g.id, {self.vault("g.path")}, json_array({self.key("g.path")}), CAST(g.data_file_id AS text),
        CASE WHEN g.table_id IS NOT NULL THEN 'table' END, CAST(g.table_id AS text)
    FROM (SELECT f.*, {self.mark_id("f.uuid", "f.data_file_id", "f.path")} AS id,
            {self.nearest("table_id", "f.path")} AS table_id
        FROM (SELECT r.*, {self.uuid("r.path")} AS uuid
            FROM (SELECT NEW.data_file_id AS data_file_id, {path} AS path) r) f
        WHERE NOT {self.is_referenced("f.path", "f.uuid")}) g  -- the last reference marks
    WHERE NOT EXISTS (SELECT 1 FROM sexton_mark m WHERE m.instance = {instance} AND m.id = g.id)
        AND NOT EXISTS (SELECT 1 FROM sexton_mark_history h WHERE h.instance = {instance} AND h.id = g.id);
    DELETE FROM {TRIGGERS["sexton_scheduled"]} WHERE data_file_id = NEW.data_file_id;"""

    def _referenced(self) -> str:
        """Return what happens when the lake registers a file: its marks are taken back, or the lake's commit fails."""
        instance = quoted(self.lake.instance)
        directory = f"(SELECT d.path FROM {self.table('sexton_directory')} d WHERE d.table_id = NEW.table_id)"
        path = f"CASE WHEN NEW.path_is_relative THEN {directory} || NEW.path ELSE NEW.path END"
        fresh = f"(SELECT {path} AS path, '/' || NEW.path AS name) p"
        key = self.key("p.path", self.is_inside("p.path"))  # of a clear file: others are refused
        uuid, keys = self.uuid("p.name"), f"json_array({key})"
        of_uuid = f"(m.id = {uuid} OR m.kind = 'orphan' AND m.parent_kind = 'rowset' AND m.parent_id = {uuid})"
        is_other = f"m.instance = {instance} AND {of_uuid} AND {FIRST_KEY} <> {key}"
        other_mark = f"EXISTS (SELECT 1 FROM sexton_mark m WHERE {is_other})"
        is_elsewhere = f"NOT {self.is_inside('p.path')} OR {self.has_another_path('p.path', uuid)} OR {other_mark}"
        of_instance = f"discarded IS NULL AND instance = {instance}"
        is_orphan = f"kind = 'orphan' AND parent_kind = 'rowset' AND parent_id = (SELECT {uuid} FROM {fresh})"
        return f"""
    SELECT RAISE(ABORT, {quoted(UNCLEAR)}) FROM {fresh}
    WHERE {self.is_unclear("p.path")}
        OR {uuid} IS NOT NULL AND ({is_elsewhere});
    {self._take_back(path, "kind <> 'prepared'")}
    DELETE FROM sexton_mark WHERE instance = {instance} AND {is_orphan};
    SELECT RAISE(ABORT, '{REFUSAL}') WHERE EXISTS (
        SELECT 1 FROM sexton_mark_history WHERE {of_instance} AND id = (SELECT {uuid} FROM {fresh})
        UNION ALL SELECT 1 FROM sexton_mark_history WHERE {of_instance} AND {is_orphan}
        UNION ALL SELECT 1 FROM sexton_mark_history WHERE {of_instance} AND id >= 'file-' AND id < 'file.'
            AND keys = (SELECT {keys} FROM {fresh}));"""

    def _take_back(self, path: str, condition: str) -> str:
        """Return the statements that delete the marks of a file; a trigger of Sexton refuses claimed ones."""
        instance = quoted(self.lake.instance)
        uuid = f"(SELECT {self.uuid('p.path')} FROM (SELECT {path} AS path) p)"
        keys = f"(SELECT json_array({self.key('p.path')}) FROM (SELECT {path} AS path) p)"
        return f"""
    DELETE FROM sexton_mark WHERE instance = {instance} AND id = {uuid} AND {condition};
    DELETE FROM sexton_mark WHERE instance = {instance} AND id >= 'file-' AND id < 'file.' AND keys = {keys}
        AND {condition};"""
