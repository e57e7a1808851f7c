"""Write the triggers of an attached DuckLake: one call per statement, whatever the number of rows. Pure."""

import hashlib

from sexton.owners.ducklake.lake_sql import KEY, LakeSql, quoted, uuid
from sexton.owners.ducklake.model import DIRECTORIES, TRIGGERS

SETTINGS = "SET search_path = pg_catalog, pg_temp SET jit = off SET plan_cache_mode = force_custom_plan"
"""Of each function: the marks are looked up by lists of ids, which a plan for other lists may not find by an index."""
HAS_NUMBER = "m.id >= 'file-' AND m.id < 'file.'"
"""The condition that a mark is of a file that DuckLake did not name: it is found by its key."""
UNCLEAR = (
    "SX006 a file that may have two paths, is in _sexton/, or whose key has more than 1024 bytes, is not registered: "
    "write the path of its only name, without //, ., .., links and parameters, and give a copy another name"
)


def create(sql: LakeSql) -> list[str]:
    """Return the statements that create the functions and their triggers."""
    bodies = [_scheduled(sql), _referenced(sql), _referenced(sql)]
    functions = [
        f"CREATE FUNCTION {sql.table(trigger)}() RETURNS trigger LANGUAGE plpgsql {SETTINGS} "
        f"AS ${tag(body)}${body}${tag(body)}$"
        for trigger, body in zip(TRIGGERS, bodies, strict=True)
    ]
    return functions + [
        f"CREATE TRIGGER {trigger} AFTER INSERT ON {sql.table(table)} REFERENCING NEW TABLE AS fresh "
        f"FOR EACH STATEMENT EXECUTE FUNCTION {sql.table(trigger)}()"
        for trigger, table in TRIGGERS.items()
    ]


def drop(sql: LakeSql) -> list[str]:
    """Return the statements that drop what is there; the triggers first: a function that one calls is not dropped."""
    triggers = [f"DROP TRIGGER IF EXISTS {name} ON {sql.table(table)}" for name, table in TRIGGERS.items()]
    return triggers + [f"DROP FUNCTION IF EXISTS {sql.table(name)}()" for name in TRIGGERS]


def pass_again(sql: LakeSql) -> str:
    """Return the statement that has rows which the lake scheduled before pass the trigger."""
    return f"WITH old AS (DELETE FROM {sql.scheduled} RETURNING *) INSERT INTO {sql.scheduled} SELECT * FROM old"


def take_back(sql: LakeSql) -> list[str]:
    """Return the statements that give the waiting marks back to the lake's list; they fail for a claimed mark.

    The first keeps rounds from claiming until the end of the transaction.
    """
    path = sql.marked_path()
    return [
        f"SELECT sexton.reference({sql.instance}, ARRAY[]::text[])",
        f"INSERT INTO {sql.scheduled} (data_file_id, path, path_is_relative, schedule_start) "
        f"SELECT CAST(m.owner_txn AS bigint), {sql.scheduled_path()}, m.vault = {quoted(sql.lake.vault)}, "
        f"m.marked_at FROM {sql.marks} AND NOT {sql.is_referenced(path, uuid(path))}",
        f"SELECT sexton.reference({sql.instance}, ARRAY(SELECT m.id FROM sexton.mark m "
        f"WHERE m.instance = {sql.instance}))",
    ]


def tag(body: str) -> str:
    """Return a tag for the quotes around the body of a function, which is not in it."""
    return f"s{hashlib.sha256(body.encode()).hexdigest()[:16]}"


def _scheduled(sql: LakeSql) -> str:
    """Return what happens when the lake lists files to delete: Sexton's marks take the place of its rows.

    A waiting mark of such a file is replaced: the retention begins when the last reference ends.
    """
    path = f"CASE WHEN f.path_is_relative THEN {sql.root} || f.path ELSE f.path END"
    rows = f"SELECT f.data_file_id, {path} AS path, {uuid(f'({path})')} AS uuid FROM fresh f"
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
        array_agg(jsonb_build_array({sql.key("p.path")})) FILTER (WHERE p.uuid IS NULL) INTO uuids, other_keys FROM p;
    marked := ARRAY({_select(sql, "id")} AND m.state = 'MARKED' AND m.id = ANY (uuids)
        UNION ALL {_select(sql, "id")} AND m.state = 'MARKED' AND {HAS_NUMBER} AND m.keys = ANY (other_keys));
    IF cardinality(marked) > 0 THEN  -- otherwise no claim matters, and DuckDB does not repeat an expiry
        PERFORM sexton.reference({sql.instance}, marked);
    END IF;
    gone := ARRAY({_select(sql, "id", "mark_history")} AND m.id = ANY (
        ARRAY(SELECT {id_} FROM ({rows}) r)));
    INSERT INTO sexton.mark (instance, kind, id, vault, keys, owner_txn, parent_kind, parent_id)
    WITH p AS MATERIALIZED (SELECT r.*, {id_} AS id FROM ({rows}) r),
        directory AS MATERIALIZED (SELECT * FROM {sql.table(DIRECTORIES)}),
        folder AS MATERIALIZED (SELECT g.name, (SELECT place.table_id FROM directory place
                WHERE substr(g.name, 1, length(place.path)) = place.path
                ORDER BY length(place.path) DESC, place.table_id DESC LIMIT 1) AS table_id
            FROM (SELECT DISTINCT {folder.format(path="p.path")} AS name FROM p) g)
    SELECT DISTINCT ON (p.id) {sql.instance}, CASE WHEN EXISTS (SELECT FROM {sql.table("ducklake_table")} t
            WHERE t.table_id = g.table_id AND t.end_snapshot IS NULL) THEN 'compacted' ELSE 'dropped' END,
        p.id, {sql.vault("p.path")}, jsonb_build_array({sql.key("p.path")}),
        CAST(p.data_file_id AS text), CASE WHEN g.table_id IS NOT NULL THEN 'table' END, CAST(g.table_id AS text)
    FROM p JOIN folder g ON g.name = {folder.format(path="p.path")}
    WHERE NOT {sql.is_referenced("p.path", "p.uuid")}  -- the last reference marks
        AND p.id <> ALL (gone)
    ON CONFLICT DO NOTHING;
    DELETE FROM {sql.scheduled} s USING fresh WHERE s.data_file_id = fresh.data_file_id;
    RETURN NULL;
END
"""


def _referenced(sql: LakeSql) -> str:
    """Return what happens when the lake registers files: their marks are taken back, or the lake's commit fails.

    It also happens without marks: a claim that this transaction cannot see must not be overlooked.
    """
    key = sql.key("p.path", sql.is_inside("p.path"))  # of a clear file: others are refused
    rows = f"SELECT r.path, {uuid('r.name')} AS uuid FROM ({sql.paths('fresh')}) r"
    is_elsewhere = f"NOT {sql.is_inside('p.path')} OR {sql.has_another_path('p.path', 'p.uuid')}"
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
            WHERE {sql.is_unclear("p.path")} OR p.uuid IS NOT NULL AND ({is_elsewhere})),
        array_agg(p.uuid) FILTER (WHERE p.uuid IS NOT NULL),
        array_agg({key}) FILTER (WHERE p.uuid IS NOT NULL),
        array_agg(jsonb_build_array({key})) FILTER (WHERE p.uuid IS NULL)
    INTO culprit, uuids, own_keys, other_keys FROM p;
    IF culprit IS NULL THEN  -- a mark of another path with one of these UUIDs
        SELECT {KEY} INTO culprit FROM (
            {_select(sql, "keys")} AND m.id = ANY (uuids)
            UNION ALL {_select(sql, "keys")} AND {orphan} = ANY (uuids)
        ) m WHERE {KEY} <> ALL (own_keys) LIMIT 1;
    END IF;
    IF culprit IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'SX006', MESSAGE = {quoted(UNCLEAR + ": ")} || culprit;
    END IF;
    PERFORM sexton.reference({sql.instance}, coalesce(uuids, ARRAY[]::text[]) || ARRAY(
        {_select(sql, "id")} AND {HAS_NUMBER} AND m.keys = ANY (other_keys)
        UNION ALL {_select(sql, "id", "mark_history")} AND {HAS_NUMBER} AND m.keys = ANY (other_keys)));
    RETURN NULL;
END
"""


def _select(sql: LakeSql, column: str, table: str = "mark") -> str:
    """Return the query of a column of the lake's marks ``m``; conditions follow."""
    return f"SELECT m.{column} FROM sexton.{table} m WHERE m.instance = {sql.instance}"
