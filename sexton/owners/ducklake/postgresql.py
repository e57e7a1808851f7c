"""Write the triggers of a DuckLake in PostgreSQL: one call per statement, whatever the number of rows. Pure."""

import hashlib

from sexton.owners.ducklake.lake_sql import UNCLEAR, LakeSql, quoted
from sexton.owners.ducklake.model import TRIGGERS


def tag(body: str) -> str:
    """Return a tag for the quotes around the body of a function, which is not in it."""
    return f"s{hashlib.sha256(body.encode()).hexdigest()[:16]}"


class PostgreSqlLake(LakeSql):
    """The SQL of a lake in PostgreSQL."""

    def create_triggers(self) -> list[str]:
        """Return the functions and their triggers."""
        bodies = [self._scheduled(), self._referenced(), self._referenced()]
        functions = [
            f"CREATE FUNCTION {self.table(trigger)}() RETURNS trigger LANGUAGE plpgsql "
            f"SET search_path = pg_catalog, pg_temp AS ${tag(body)}${body}${tag(body)}$"
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
        """Return statements of which the first lets no claim happen until the end of the transaction."""
        instance, vault = quoted(self.lake.instance), quoted(self.lake.vault)
        marks = f"sexton.mark m WHERE m.instance = {instance}"
        path = self.whole_path("(m.keys ->> 0)")
        return [
            f"SELECT sexton.reference({instance}, ARRAY[]::text[])",
            f"INSERT INTO {self.table(TRIGGERS['sexton_scheduled'])} "
            "(data_file_id, path, path_is_relative, schedule_start) "
            f"SELECT CAST(m.owner_txn AS bigint), {self.scheduled_path('(m.keys ->> 0)')}, m.vault = {vault}, "
            f"m.marked_at FROM {marks} AND m.owner_txn IS NOT NULL AND NOT {self.is_referenced(path)}",
            f"SELECT sexton.reference({instance}, ARRAY(SELECT m.id FROM {marks}))",
        ]

    def position(self, path: str, part: str) -> str:
        """Return a call of strpos."""
        return f"strpos({path}, {quoted(part)})"

    def is_hexadecimal(self, text: str) -> str:
        """Return a call of translate."""
        return f"translate({text}, '0123456789abcdef-', '') = ''"

    def _scheduled(self) -> str:
        """Return what happens when the lake lists files to delete: Sexton's marks take the place of its rows.

        A waiting mark of such a file is replaced: the retention begins when the last reference ends.
        """
        instance, scheduled = quoted(self.lake.instance), self.table(TRIGGERS["sexton_scheduled"])
        paths = f"SELECT CASE WHEN path_is_relative THEN {self.root} || path ELSE path END AS path FROM fresh"
        is_waiting = f"m.instance = {instance} AND m.state = 'MARKED'"
        has_key = f"m.keys = jsonb_build_array({self.key('p.path')})"
        marks = (
            f"SELECT m.id FROM ({paths}) p JOIN sexton.mark m ON m.id = {self.uuid('p.path')} AND {is_waiting} "
            f"UNION ALL SELECT m.id FROM ({paths}) p JOIN sexton.mark m ON {is_waiting} AND m.id >= 'file-' "
            f"AND m.id < 'file.' AND {has_key} WHERE {self.uuid('p.path')} IS NULL"
        )
        return f"""
BEGIN
    PERFORM sexton.reference({instance}, ARRAY({marks}));
    INSERT INTO sexton.mark (instance, kind, id, vault, keys, owner_txn, parent_kind, parent_id)
    SELECT DISTINCT ON (g.id) {instance}, {self.kind("g.path")}, g.id, {self.vault("g.path")},
        jsonb_build_array({self.key("g.path")}), CAST(g.data_file_id AS text),
        CASE WHEN g.table_id IS NOT NULL THEN 'table' END, CAST(g.table_id AS text)
    FROM (SELECT f.data_file_id, f.path, {self.mark_id("f.path", "f.data_file_id")} AS id,
            {self.nearest("table_id", "f.path")} AS table_id
        FROM (SELECT data_file_id, CASE WHEN path_is_relative THEN {self.root} || path ELSE path END AS path
            FROM fresh) f) g
    WHERE NOT {self.is_referenced("g.path")}  -- the last reference marks
        AND NOT EXISTS (SELECT FROM sexton.mark_history h WHERE h.instance = {instance} AND h.id = g.id)
    ON CONFLICT DO NOTHING;
    DELETE FROM {scheduled} s USING fresh WHERE s.data_file_id = fresh.data_file_id;
    RETURN NULL;
END
"""

    def _referenced(self) -> str:
        """Return what happens when the lake registers files: their marks are taken back, or the lake's commit fails.

        It also happens without marks: a claim that this transaction cannot see must not be overlooked.
        """
        instance, key = quoted(self.lake.instance), f"jsonb_build_array({self.key('p.path')})"
        is_other = f"m.instance = {instance} AND m.id = p.uuid AND m.keys <> {key}"
        by_key = " UNION ALL ".join(
            f"SELECT m.id FROM p JOIN sexton.{table} m ON m.instance = {instance} AND m.id >= 'file-' "
            f"AND m.id < 'file.' AND m.keys = {key} WHERE p.uuid IS NULL"
            for table in ("mark", "mark_history")
        )
        has_mark = f"EXISTS (SELECT FROM sexton.mark m WHERE {is_other})"
        is_elsewhere = f"{self.has_another_path('p.path', 'p.uuid')} OR {has_mark}"
        return f"""
DECLARE
    culprit text;
    ids text[];
BEGIN
    WITH p AS MATERIALIZED (  -- so that each UUID is computed once
        SELECT r.path, {self.uuid("r.name")} AS uuid FROM ({self.paths("fresh")}) r
    ) SELECT (SELECT p.path FROM p
            WHERE {self.is_unclear("p.path")} OR p.uuid IS NOT NULL AND ({is_elsewhere}) LIMIT 1),
        ARRAY(SELECT p.uuid FROM p WHERE p.uuid IS NOT NULL UNION ALL {by_key})
    INTO culprit, ids;
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = {quoted(UNCLEAR + ": ")} || culprit;
    END IF;
    PERFORM sexton.reference({instance}, ids);
    RETURN NULL;
END
"""
