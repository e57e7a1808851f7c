"""Write the triggers of a DuckLake in PostgreSQL: one call per statement, whatever the number of rows. Pure."""

from sexton.owners.ducklake.lake_sql import LakeSql, quoted
from sexton.owners.ducklake.model import TRIGGERS


class PostgreSqlLake(LakeSql):
    """The SQL of a lake in PostgreSQL."""

    def create_triggers(self) -> list[str]:
        """Return the functions and their triggers."""
        bodies = [self._scheduled(), self._referenced(), self._referenced()]
        functions = [
            f"CREATE FUNCTION {self.table(trigger)}() RETURNS trigger LANGUAGE plpgsql "
            f"SET search_path = pg_catalog, pg_temp AS $sexton${body}$sexton$"
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
        return [
            f"SELECT sexton.reference({instance}, ARRAY[]::text[])",
            f"INSERT INTO {self.table(TRIGGERS['sexton_scheduled'])} "
            "(data_file_id, path, path_is_relative, schedule_start) "
            f"SELECT CAST(m.owner_txn AS bigint), {self.scheduled_path('(m.keys ->> 0)')}, m.vault = {vault}, "
            f"m.marked_at FROM {marks} AND m.owner_txn IS NOT NULL",
            f"SELECT sexton.reference({instance}, ARRAY(SELECT m.id FROM {marks}))",
        ]

    def position(self, path: str, part: str) -> str:
        """Return a call of strpos."""
        return f"strpos({path}, {quoted(part)})"

    def uuid(self, path: str) -> str:
        """Return a match of a regular expression."""
        return f"substring({path} from '/ducklake-([0-9a-f-]{{36}})(?:-delete)?[.](?:parquet|puffin)$')"

    def _scheduled(self) -> str:
        """Return what happens when the lake lists files to delete: Sexton's marks take the place of its rows."""
        instance, scheduled = quoted(self.lake.instance), self.table(TRIGGERS["sexton_scheduled"])
        return f"""
BEGIN
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
        """Return what happens when the lake registers files: their marks are taken back, or the lake's commit fails."""
        instance = quoted(self.lake.instance)
        path = "CASE WHEN f.path_is_relative THEN d.path || f.path ELSE f.path END"
        has_number = f"m.instance = {instance} AND m.id >= 'file-' AND m.id < 'file.'"
        return f"""
DECLARE
    ids text[];
BEGIN
    SELECT array_agg(coalesce(g.uuid, m.id)) INTO ids
    FROM (SELECT {self.uuid("p.path")} AS uuid, {self.key("p.path")} AS key
        FROM (SELECT {path} AS path FROM fresh f
            LEFT JOIN {self.table("sexton_directory")} d ON d.table_id = f.table_id) p) g
    LEFT JOIN sexton.mark m ON g.uuid IS NULL AND {has_number} AND m.keys = jsonb_build_array(g.key)
    WHERE coalesce(g.uuid, m.id) IS NOT NULL;
    -- Without marks too: a claim that this transaction cannot see must not be overlooked.
    PERFORM sexton.reference({instance}, coalesce(ids, ARRAY[]::text[]));
    RETURN NULL;
END
"""
