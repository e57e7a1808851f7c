"""Write the triggers of a DuckLake in PostgreSQL: one call per statement, whatever the number of rows. Pure."""

import hashlib

from sexton.owners.ducklake.lake_sql import ENDINGS, UNCLEAR, LakeSql, quoted
from sexton.owners.ducklake.model import ELSEWHERE, FILE_TABLES, TRIGGERS

SETTINGS = "SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_custom_plan"
"""Of each function: the marks are looked up by lists of ids, which a plan for other lists may not find by an index."""
NAME = "('/' || {}.path)"
"""The expression for the name of a file, whose path may be relative: an index has its UUID."""
HAS_NUMBER = "m.id >= 'file-' AND m.id < 'file.'"
"""The condition that a mark is of a file that DuckLake did not name: it is found by its key."""


def tag(body: str) -> str:
    """Return a tag for the quotes around the body of a function, which is not in it."""
    return f"s{hashlib.sha256(body.encode()).hexdigest()[:16]}"


class PostgreSqlLake(LakeSql):
    """The SQL of a lake in PostgreSQL."""

    def create_views(self) -> list[str]:
        """Return none."""
        return []

    def live_files(self) -> str:
        """Return a query with fences: without them the planner copies its conditions into each comparison of a key."""
        files = " UNION ALL ".join(
            f"""
    SELECT '{table}' AS kind, f.{id_} AS id, f.file_size_bytes AS bytes,
        CASE WHEN f.path_is_relative THEN d.path || f.path ELSE f.path END AS path
    FROM {self.table(table)} f LEFT JOIN {self.table("sexton_directory")} d ON d.table_id = f.table_id"""
            for table, id_ in FILE_TABLES.items()
        )
        return f"""
SELECT p.kind, CAST(p.id AS text) AS id,
    CASE WHEN p.is_unknown OR p.is_inside THEN {quoted(self.lake.vault)} ELSE '{ELSEWHERE}' END AS vault,
    CASE WHEN p.is_unknown THEN '' ELSE {self.key("p.path", "p.is_inside")} END AS key, p.bytes
FROM (
    SELECT f.*, f.path IS NULL OR {self.is_unclear("f.path")} AS is_unknown, {self.is_inside("f.path")} AS is_inside
    FROM ({files}) f OFFSET 0) p OFFSET 0"""

    def registered_files(self) -> str:
        """Return a union of both tables."""
        return " UNION ".join(
            f"SELECT path, {self.uuid('name')} AS uuid FROM ({self._paths(self.table(table))}) f"
            for table in FILE_TABLES
        )

    def indexes(self) -> dict[str, str]:
        """Return two for each table of files: of paths, and of UUIDs."""
        paths = {f"sexton_{table}_path": f"{table} (path)" for table in FILE_TABLES}
        uuid = self.uuid(NAME.format("f").replace("f.", ""))
        return paths | {f"sexton_{table}_uuid": f"{table} (({uuid}))" for table in FILE_TABLES}

    @property
    def each_once(self) -> str:
        """Return DISTINCT: files are joined with their directories."""
        return "DISTINCT"

    def create_triggers(self) -> list[str]:
        """Return the functions and their triggers."""
        bodies = [self._scheduled(), self._referenced(), self._referenced()]
        functions = [
            f"CREATE FUNCTION {self.table(trigger)}() RETURNS trigger LANGUAGE plpgsql {SETTINGS} "
            f"AS ${tag(body)}${body}${tag(body)}$"
            for trigger, body in zip(TRIGGERS, bodies, strict=True)
        ]
        return functions + [
            f"CREATE TRIGGER {trigger} AFTER INSERT ON {self.table(table)} REFERENCING NEW TABLE AS fresh "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {self.table(trigger)}()"
            for trigger, table in TRIGGERS.items()
        ]

    def drop_triggers(self) -> list[str]:
        """Return the triggers first: a function that one calls is not dropped."""
        triggers = [f"DROP TRIGGER IF EXISTS {name} ON {self.table(table)}" for name, table in TRIGGERS.items()]
        return triggers + [f"DROP FUNCTION IF EXISTS {self.table(name)}()" for name in TRIGGERS]

    def pass_again(self) -> list[str]:
        """Return one statement."""
        scheduled = self.table(TRIGGERS["sexton_scheduled"])
        return [f"WITH old AS (DELETE FROM {scheduled} RETURNING *) INSERT INTO {scheduled} SELECT * FROM old"]

    def take_back(self) -> list[str]:
        """Return three statements; the first keeps rounds from claiming until the end of the transaction."""
        instance, vault = quoted(self.lake.instance), quoted(self.lake.vault)
        marks = f"sexton.mark m WHERE m.instance = {instance}"
        path = self.marked_path()
        return [
            f"SELECT sexton.reference({instance}, ARRAY[]::text[])",
            f"INSERT INTO {self.table(TRIGGERS['sexton_scheduled'])} "
            "(data_file_id, path, path_is_relative, schedule_start) "
            f"SELECT CAST(m.owner_txn AS bigint), {self.scheduled_path('(m.keys ->> 0)')}, m.vault = {vault}, "
            f"m.marked_at FROM {self.marks} AND NOT {self._is_referenced(path, self.uuid(path))}",
            f"SELECT sexton.reference({instance}, ARRAY(SELECT m.id FROM {marks}))",
        ]

    @property
    def marks(self) -> str:
        """The table of Sexton's schema."""
        return f"sexton.mark m WHERE m.instance = {quoted(self.lake.instance)} AND m.owner_txn IS NOT NULL"

    def marked_path(self) -> str:
        """Return the path of the only key."""
        return self.whole_path("(m.keys ->> 0)")

    def octets(self, text: str) -> str:
        """Return a call of octet_length."""
        return f"octet_length({text})"

    def rest(self, text: str, characters: int) -> str:
        """Return a call of right: substr counts the characters of the whole text, and takes four times as long."""
        return f"right({text}, -{characters})"

    def position(self, path: str, part: str) -> str:
        """Return a call of strpos."""
        return f"strpos({path}, {quoted(part)})"

    def uuid(self, path: str) -> str:
        """Return a case for each ending."""
        cases = []
        for ending in ENDINGS:
            uuid = f"substr({path}, length({path}) - {len(ending) + 35}, 36)"
            has_name = f"substr({path}, length({path}) - {len(ending) + 45}, 10) = '/ducklake-'"
            ends = f"substr({path}, length({path}) - {len(ending) - 1}) = '{ending}'"
            cases.append(f"WHEN {ends} AND {has_name} AND translate({uuid}, '0123456789abcdef-', '') = '' THEN {uuid}")
        return f"CASE {' '.join(cases)} END"

    def _is_referenced(self, path: str, uuid: str) -> str:
        """Return the condition that a row of the lake still names a file: by its UUID, if it has one, or its path."""
        by_uuid, by_path = [], []
        for files in FILE_TABLES:
            held = f"{self.table(files)} held"  # aliases that no caller has
            below = "held.table_id = place.table_id AND held.path_is_relative"
            by_uuid.append(f"EXISTS (SELECT 1 FROM {held} WHERE {self.uuid(NAME.format('held'))} = {uuid})")
            by_path += [
                f"EXISTS (SELECT 1 FROM {held} WHERE held.path = {path})",
                f"EXISTS (SELECT 1 FROM {self.table('sexton_directory')} place JOIN {held} ON {below} "
                f"AND held.path = substr({path}, length(place.path) + 1) "
                f"WHERE substr({path}, 1, length(place.path)) = place.path)",
            ]
        return f"CASE WHEN {uuid} IS NOT NULL THEN {' OR '.join(by_uuid)} ELSE {' OR '.join(by_path)} END"

    def _paths(self, source: str) -> str:
        """Return the query of registered files: ``path``, NULL where its table is unknown, and ``name``, its last part.

        Args:
            source: a table of files, or rows with its columns.
        """
        return (
            "SELECT CASE WHEN f.path_is_relative THEN d.path || f.path ELSE f.path END AS path, '/' || f.path AS name "
            f"FROM {source} f LEFT JOIN {self.table('sexton_directory')} d ON d.table_id = f.table_id"
        )

    def _has_another_path(self, path: str, uuid: str) -> str:
        """Return the condition that a row of the lake names a file of this UUID under another path."""
        same_uuid = f"{self.uuid(NAME.format('f'))} = {uuid}"
        of_tables = (
            f"EXISTS (SELECT 1 FROM ({self._paths(self.table(files))} WHERE {same_uuid}) o WHERE o.path <> {path})"
            for files in FILE_TABLES
        )
        return f"({' OR '.join(of_tables)})"

    def _scheduled(self) -> str:
        """Return what happens when the lake lists files to delete: Sexton's marks take the place of its rows.

        A waiting mark of such a file is replaced: the retention begins when the last reference ends.
        """
        instance, scheduled = quoted(self.lake.instance), self.table(TRIGGERS["sexton_scheduled"])
        path = f"CASE WHEN f.path_is_relative THEN {self.root} || f.path ELSE f.path END"
        rows = f"SELECT f.data_file_id, {path} AS path, {self.uuid(f'({path})')} AS uuid FROM fresh f"
        # A lake that was restored gives numbers again, so the path is in the id, too.
        id_ = "coalesce(r.uuid, 'file-' || md5(r.path) || '-' || r.data_file_id)"
        folder = "left({path}, length({path}) - strpos(reverse({path}), '/') + 1)"
        return f"""
DECLARE
    uuids text[];
    other_keys jsonb[];
    marked text[];
    gone text[];
BEGIN
    WITH p AS MATERIALIZED ({rows})
    SELECT array_agg(p.uuid) FILTER (WHERE p.uuid IS NOT NULL),
        array_agg(jsonb_build_array({self.key("p.path")})) FILTER (WHERE p.uuid IS NULL) INTO uuids, other_keys FROM p;
    marked := ARRAY({self._select("id")} AND m.state = 'MARKED' AND m.id = ANY (uuids)
        UNION ALL {self._select("id")} AND m.state = 'MARKED' AND {HAS_NUMBER} AND m.keys = ANY (other_keys));
    IF cardinality(marked) > 0 THEN  -- otherwise no claim matters, and DuckDB does not repeat an expiry
        PERFORM sexton.reference({instance}, marked);
    END IF;
    gone := ARRAY({self._select("id", "mark_history")} AND m.id = ANY (
        ARRAY(SELECT {id_} FROM ({rows}) r)));
    INSERT INTO sexton.mark (instance, kind, id, vault, keys, owner_txn, parent_kind, parent_id)
    WITH p AS MATERIALIZED (SELECT r.*, {id_} AS id FROM ({rows}) r),
        directory AS MATERIALIZED (SELECT * FROM {self.table("sexton_directory")}),
        folder AS MATERIALIZED (SELECT g.name, {self.nearest("table_id", "g.name", "directory")} AS table_id
            FROM (SELECT DISTINCT {folder.format(path="p.path")} AS name FROM p) g)
    SELECT DISTINCT ON (p.id) {instance}, CASE WHEN EXISTS (SELECT FROM {self.table("ducklake_table")} t
            WHERE t.table_id = g.table_id AND t.end_snapshot IS NULL) THEN 'compacted' ELSE 'dropped' END,
        p.id, {self.vault("p.path")}, jsonb_build_array({self.key("p.path")}),
        CAST(p.data_file_id AS text), CASE WHEN g.table_id IS NOT NULL THEN 'table' END, CAST(g.table_id AS text)
    FROM p JOIN folder g ON g.name = {folder.format(path="p.path")}
    WHERE NOT {self._is_referenced("p.path", "p.uuid")}  -- the last reference marks
        AND p.id <> ALL (gone)
    ON CONFLICT DO NOTHING;
    DELETE FROM {scheduled} s USING fresh WHERE s.data_file_id = fresh.data_file_id;
    RETURN NULL;
END
"""

    def _referenced(self) -> str:
        """Return what happens when the lake registers files: their marks are taken back, or the lake's commit fails.

        It also happens without marks: a claim that this transaction cannot see must not be overlooked.
        """
        instance = quoted(self.lake.instance)
        key = self.key("p.path", self.is_inside("p.path"))  # of a clear file: others are refused
        rows = f"SELECT r.path, {self.uuid('r.name')} AS uuid FROM ({self._paths('fresh')}) r"
        is_elsewhere = f"NOT {self.is_inside('p.path')} OR {self._has_another_path('p.path', 'p.uuid')}"
        orphan = "m.kind = 'orphan' AND m.parent_kind = 'rowset' AND m.parent_id"
        return f"""
DECLARE
    culprit text;
    uuids text[];
    own_keys text[];
    other_keys jsonb[];
BEGIN
    WITH p AS MATERIALIZED ({rows})
    SELECT min(p.path) FILTER (
            WHERE {self.is_unclear("p.path")} OR p.uuid IS NOT NULL AND ({is_elsewhere})),
        array_agg(p.uuid) FILTER (WHERE p.uuid IS NOT NULL),
        array_agg({key}) FILTER (WHERE p.uuid IS NOT NULL),
        array_agg(jsonb_build_array({key})) FILTER (WHERE p.uuid IS NULL)
    INTO culprit, uuids, own_keys, other_keys FROM p;
    IF culprit IS NULL THEN  -- a mark of another path with one of these UUIDs
        SELECT m.keys ->> 0 INTO culprit FROM (
            {self._select("keys")} AND m.id = ANY (uuids)
            UNION ALL {self._select("keys")} AND {orphan} = ANY (uuids)
        ) m WHERE m.keys ->> 0 <> ALL (own_keys) LIMIT 1;
    END IF;
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = {quoted(UNCLEAR + ": ")} || culprit;
    END IF;
    PERFORM sexton.reference({instance}, coalesce(uuids, ARRAY[]::text[]) || ARRAY(
        {self._select("id")} AND {HAS_NUMBER} AND m.keys = ANY (other_keys)
        UNION ALL {self._select("id", "mark_history")} AND {HAS_NUMBER} AND m.keys = ANY (other_keys)));
    RETURN NULL;
END
"""

    def _select(self, column: str, table: str = "mark") -> str:
        """Return the query of a column of the lake's marks ``m``; conditions follow."""
        return f"SELECT m.{column} FROM sexton.{table} m WHERE m.instance = {quoted(self.lake.instance)}"
