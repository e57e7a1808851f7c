"""Find objects without records and records without objects, by a join in each direction.

Both sides are nearly equal, so fingerprints of buckets are compared first, without a shuffle, and only the buckets that
differ are joined. For objects that no record names, their prefixes are looked up last.

The functions take frames and return frames; they collect none. Frames are joined by ``name``, the canonical form of a
key. No name is null: an anti-join would keep a null on one side and lose it on the other.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql.connect import functions as f

PREFIXES = (
    "filter(transform(sequence(1, length(name)), i -> substring(name, 1, i)), "
    "p -> not (substring(p, -1, 1) rlike '^[A-Za-z0-9.-]$'))"
)
"""All prefixes of a name that end with a separator, as in ``marks.policy.covering_prefixes``."""
COLUMNS = ("type", "vault", "key", "expected", "size", "etag", "record")

BUCKETS = 1 << 16
MOST_BUCKETS = BUCKETS // 4
"""Where more buckets differ, everything is joined: that costs less than reading both sides twice."""


def differing(objects: DataFrame, exact: DataFrame) -> list[int] | None:
    """Return the buckets in which the objects and the known names, or their sizes, differ; None: too many.

    A bucket holds 64-bit hashes of names. Its fingerprint is their number, their exclusive-or, and a sum, in which
    equal rows do not cancel out. Two different buckets have the same fingerprint with a chance of 2^-100, or 2^-44
    where rows are repeated: then a finding is missed, and nothing is reported wrongly.

    Args:
        objects: vault, name, bytes.
        exact: vault, name, bytes; a name without a size makes its bucket differ where others have one.
    """
    sized = exact.select("bytes").where("bytes is not null").limit(1).count() > 0
    object_buckets = _fingerprints(objects, "o", sized=sized)
    known_buckets = _fingerprints(exact, "k", sized=sized)
    same = f.lit(True)
    for part in ("n", "x", "y"):
        same &= f.col(f"o_{part}").eqNullSafe(f.col(f"k_{part}"))
    different = object_buckets.join(known_buckets, "bucket", "full_outer").where(~same)
    rows = different.select("bucket").limit(MOST_BUCKETS + 1).collect()
    return None if len(rows) > MOST_BUCKETS else [row.bucket for row in rows]


@contextmanager
def narrowed(objects: DataFrame, exact: DataFrame) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Yield the rows of buckets that differ, which Spark caches as long as the context lasts.

    These are few, and are joined by hash. Where everything is joined, it is sorted: no part has to fit into memory.
    """
    buckets = differing(objects, exact)
    if buckets is None:
        yield objects, exact
        return
    cached = [_in_buckets(side, buckets).persist() for side in (objects, exact)]
    try:
        yield cached[0], cached[1].hint("shuffle_hash")
    finally:
        for side in cached:
            side.unpersist()


def _in_buckets(side: DataFrame, buckets: list[int]) -> DataFrame:
    bucket_frame = f.broadcast(side.sparkSession.createDataFrame([(b,) for b in buckets], "bucket int"))
    numbered = side.withColumn("bucket", _bucket_of(f.xxhash64("vault", "name")))
    return numbered.join(bucket_frame, "bucket", "left_semi").drop("bucket")


def _bucket_of(h: Column) -> Column:
    return h.bitwiseAND(BUCKETS - 1).cast("int")


def _fingerprints(side: DataFrame, prefix: str, *, sized: bool) -> DataFrame:
    names = side.select(f.xxhash64("vault", "name").alias("name"), *(["bytes"] if sized else []))
    row_hash = f.xxhash64("name", "bytes") if sized else f.col("name")
    hashed = names.select(_bucket_of(f.col("name")).alias("bucket"), row_hash.alias("h"))
    summand = f.shiftrightunsigned(f.xxhash64("h"), 20)  # 44 bits: a bucket of 500,000 rows does not overflow
    return hashed.groupBy("bucket").agg(
        f.count("*").alias(f"{prefix}_n"), f.bit_xor("h").alias(f"{prefix}_x"), f.sum(summand).alias(f"{prefix}_y")
    )


def forward(objects: DataFrame, exact: DataFrame, whole: Sequence[str]) -> DataFrame:
    """Return live files that are LOST or have another size, in vaults whose listing is complete.

    Args:
        objects: vault, name, key, bytes, etag.
        exact: vault, name, key, live, bytes, record.
        whole: names of the vaults whose listing is complete.
    """
    live = exact.where(exact.live & exact.vault.isin(list(whole))).select(
        "vault", "name", "key", f.col("bytes").alias("expected"), "record"
    )
    listed = objects.select("vault", "name", f.col("key").alias("object_key"), f.col("bytes").alias("size"), "etag")
    joined = live.join(listed, ["vault", "name"], "left")
    lost = f.col("object_key").isNull()
    other_size = (f.col("object_key") == f.col("key")) & (f.col("size") != f.col("expected"))
    return joined.where(lost | other_size).select(
        f.when(lost, "LOST").otherwise("SIZE_MISMATCH").alias("type"),
        *(f.col(name) for name in COLUMNS[1:]),
    )


def inverted(objects: DataFrame, exact: DataFrame, covers: DataFrame) -> DataFrame:
    """Return the objects that no record names: vault, key, size, etag.

    Args:
        objects: vault, name, key, bytes, etag; only those old enough to be judged.
        exact: vault and name of the known files.
        covers: vault and name of the prefixes under which all objects are known.
    """
    on = ["vault", "name"]
    unknown = objects.join(exact.select(*on), on, "left_anti")
    size = f.col("bytes").alias("size")
    if covers.isEmpty():
        return unknown.select("vault", "key", size, "etag")
    prefixes = unknown.select(*on, f.explode(f.expr(PREFIXES)).alias("prefix"))
    known = covers.select("vault", f.col("name").alias("prefix")).distinct()
    covered = prefixes.join(known, ["vault", "prefix"], "left_semi").select(*on).distinct()
    uncovered = unknown.join(covered, on, "left_anti")
    return uncovered.select("vault", "key", size, "etag")
