"""Which objects and records do not go together: a shuffled join each way, and a look at prefixes for what is left.

Frames in, a frame out; nothing is collected. They meet by ``name``, the canonical form of a key, and none is null: an
anti-join would keep a null on one side and lose it on the other.
"""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql.connect import functions as f

PREFIXES = (
    "filter(transform(sequence(1, length(name)), i -> substring(name, 1, i)), "
    "p -> not (substring(p, -1, 1) rlike '^[A-Za-z0-9.-]$'))"
)
"""Every prefix of a name that ends with a separator; as ``marks.policy.covering_prefixes`` says."""
COLUMNS = ("type", "vault", "key", "expected", "size", "etag", "record")


def forward(objects: DataFrame, exact: DataFrame, whole: Sequence[str]) -> DataFrame:
    """Return what is LOST or has another size: live files of vaults whose listing is whole.

    Args:
        objects: vault, name, key, bytes, etag.
        exact: vault, name, key, live, bytes, record.
        whole: names of vaults.
    """
    live = exact.where(exact.live & exact.vault.isin(list(whole))).select(
        "vault", "name", "key", f.col("bytes").alias("expected"), "record"
    )
    there = objects.select("vault", "name", f.col("key").alias("its"), f.col("bytes").alias("size"), "etag")
    joined = live.hint("shuffle_hash").join(there, ["vault", "name"], "left")
    lost = f.col("its").isNull()
    other = (f.col("its") == f.col("key")) & (f.col("size") != f.col("expected"))
    return joined.where(lost | other).select(
        f.when(lost, "LOST").otherwise("SIZE_MISMATCH").alias("type"),
        *(f.col(name) for name in COLUMNS[1:]),
    )


def inverted(objects: DataFrame, exact: DataFrame, covers: DataFrame) -> DataFrame:
    """Return the objects that nothing names: vault, key, size, etag.

    Args:
        objects: vault, name, key, bytes, etag; those that are old enough to be judged.
        exact: vault, name of what is known.
        covers: vault, name of prefixes of which all is known.
    """
    on = ["vault", "name"]
    unknown = objects.hint("shuffle_hash").join(exact.select(*on), on, "left_anti")
    named = unknown.select(*on, f.explode(f.expr(PREFIXES)).alias("prefix"))
    known = covers.select("vault", f.col("name").alias("prefix")).distinct()
    covered = named.join(known, ["vault", "prefix"], "left_semi").select(*on).distinct()
    left = unknown.join(covered, on, "left_anti")
    return left.select("vault", "key", f.col("bytes").alias("size"), "etag")
