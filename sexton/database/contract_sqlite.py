"""The SQLite statements of the owner's contract; on PostgreSQL the functions of schema ``sexton`` do the same.

Owners see the messages in them: change both sides together.
"""

PARENT_LEVELS = 16
"""Levels of parents that undrop and holds climb; on PostgreSQL undrop has the same number."""
ORPHAN_MARKS = (
    "instance = :i AND kind = 'orphan' AND parent_kind = 'rowset' AND parent_id IN (SELECT value FROM json_each(:ids))"
)
LOST_AS_ORPHANS = f"""
SELECT parent_id || ' lost a file as orphan ' || id FROM sexton_mark WHERE {ORPHAN_MARKS}
UNION ALL SELECT parent_id || ' lost a file as orphan ' || id FROM sexton_mark_history WHERE {ORPHAN_MARKS}
"""
LOST_MARKS = """
SELECT w.value || CASE
    WHEN m.state = 'FENCED' THEN ' is fenced: a round is about to collect it; unless its transaction was aborted, '
        || 'commit again after that round'
    WHEN m.id IS NOT NULL THEN ' claimed in batch ' || m.batch
    WHEN h.id IS NOT NULL THEN ' gone in batch ' || h.batch
    ELSE ' was never prepared, or is committed already' END
FROM json_each(?) w
LEFT JOIN sexton_mark m ON m.instance = ? AND m.kind = 'prepared' AND m.id = w.value
LEFT JOIN sexton_mark_history h ON h.instance = ? AND h.kind = 'prepared' AND h.id = w.value
WHERE m.id IS NULL OR m.state <> 'MARKED'
"""
UNDROP_REFUSALS = f"""
WITH RECURSIVE up (root, kind, id, depth) AS (
    SELECT m.id, m.parent_kind, m.parent_id, 1 FROM sexton_mark m
    WHERE m.instance = :i AND m.kind = :k AND m.id IN (SELECT value FROM json_each(:ids)) AND m.parent_id IS NOT NULL
    UNION
    SELECT up.root, m.parent_kind, m.parent_id, up.depth + 1 FROM up
    JOIN sexton_mark m ON m.instance = :i AND m.kind = up.kind AND m.id = up.id
    WHERE m.parent_id IS NOT NULL AND up.depth < {PARENT_LEVELS}
), down (root, kind, id, depth) AS (
    SELECT value, :k, value, 0 FROM json_each(:ids)
    UNION
    SELECT down.root, m.kind, m.id, down.depth + 1 FROM down
    JOIN sexton_mark m ON m.instance = :i AND m.parent_kind = down.kind AND m.parent_id = down.id
    WHERE down.depth < {PARENT_LEVELS}
)
SELECT w.value || CASE
    WHEN m.state = 'CLAIMED' THEN ' is claimed in batch ' || m.batch
    WHEN m.state = 'FENCED' THEN ' is fenced'
    WHEN h.id IS NOT NULL THEN ' is gone'
    ELSE ' is not marked' END
FROM json_each(:ids) w
LEFT JOIN sexton_mark m ON m.instance = :i AND m.kind = :k AND m.id = w.value
LEFT JOIN sexton_mark_history h ON h.instance = :i AND h.kind = :k AND h.id = w.value
WHERE m.id IS NULL OR m.state <> 'MARKED'
UNION ALL
SELECT up.root || ': its ancestor ' || up.kind || ' ' || up.id || ' is marked or gone' FROM up
WHERE NOT (up.kind = :k AND up.id IN (SELECT value FROM json_each(:ids)))
  AND (EXISTS (SELECT 1 FROM sexton_mark m WHERE m.instance = :i AND m.kind = up.kind AND m.id = up.id)
    OR EXISTS (SELECT 1 FROM sexton_mark_history h WHERE h.instance = :i AND h.kind = up.kind AND h.id = up.id))
UNION ALL
SELECT down.root || ': its descendant ' || down.kind || ' ' || down.id || ' is claimed' FROM down
JOIN sexton_mark m ON m.instance = :i AND m.kind = down.kind AND m.id = down.id
WHERE down.depth > 0 AND m.state = 'CLAIMED' AND m.kind NOT IN ('compacted', 'prepared')
UNION ALL
SELECT down.root || ': its descendant ' || h.kind || ' ' || h.id || ' is gone' FROM down
JOIN sexton_mark_history h ON h.instance = :i AND h.parent_kind = down.kind AND h.parent_id = down.id
    AND h.kind NOT IN ('compacted', 'prepared')
JOIN sexton_mark p ON p.instance = :i AND p.kind = :k AND p.id = down.root AND h.claimed_at >= p.marked_at
"""
