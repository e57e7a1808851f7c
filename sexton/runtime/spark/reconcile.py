"""Which objects and records do not go together: a shuffled join each way, and a look at prefixes for what is left.

Both sides are nearly the same, so they are compared by fingerprints of buckets first, without a shuffle, and only the
buckets that differ are joined.

Frames in, a frame out; nothing is collected. They meet by ``name``, the canonical form of a key, and none is null: an
anti-join would keep a null on one side and lose it on the other.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql.connect import functions as f

PREFIXES = (
    "filter(transform(sequence(1, length(name)), i -> substring(name, 1, i)), "
    "p -> not (substring(p, -1, 1) rlike '^[A-Za-z0-9.-]$'))"
)
"""Every prefix of a name that ends with a separator; as ``marks.policy.covering_prefixes`` says."""
COLUMNS = ("type", "vault", "key", "expected", "size", "etag", "record")

BUCKETS = 1 << 16
MOST_BUCKETS = BUCKETS // 4
"""Where more of them differ, everything is joined: it costs less than looking twice."""


def differing(objects: DataFrame, exact: DataFrame) -> list[int] | None:
    """Return the buckets in which objects and known names, or their sizes, are not the same; None: too many.

    A bucket is some 64-bit hash values of names; its fingerprint is their number, their exclusive-or, and a sum, in
    which what comes twice does not cancel out. That two different buckets look the same has a chance of 2^-100, where
    rows come twice of 2^-44: a finding would be missed, nothing condemned.

    Args:
        objects: vault, name, bytes.
        exact: vault, name, bytes; a name without a size makes its bucket differ where others have one.
    """
    sized = exact.select("bytes").where("bytes is not null").limit(1).count() > 0
    mine, theirs = (_fingerprints(side, of, sized=sized) for side, of in ((objects, "o"), (exact, "k")))
    same = f.lit(True)
    for part in ("n", "x", "y"):
        same &= f.col(f"o_{part}").eqNullSafe(f.col(f"k_{part}"))
    found = mine.join(theirs, "bucket", "full_outer").where(~same).select("bucket").limit(MOST_BUCKETS + 1).collect()
    return None if len(found) > MOST_BUCKETS else [row.bucket for row in found]


@contextmanager
def narrowed(objects: DataFrame, exact: DataFrame) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Give only what lies in buckets that differ, kept by Spark while the context lasts.

    That is little: it is joined by hash. Where everything is joined it is sorted: no part has to fit into memory.
    """
    buckets = differing(objects, exact)
    if buckets is None:
        yield objects, exact
        return
    kept = [_within(side, buckets).persist() for side in (objects, exact)]
    try:
        yield kept[0], kept[1].hint("shuffle_hash")
    finally:
        for side in kept:
            side.unpersist()


def _within(side: DataFrame, buckets: list[int]) -> DataFrame:
    wanted = f.broadcast(side.sparkSession.createDataFrame([(b,) for b in buckets], "bucket int"))
    numbered = side.withColumn("bucket", _bucket_of(f.xxhash64("vault", "name")))
    return numbered.join(wanted, "bucket", "left_semi").drop("bucket")


def _bucket_of(h: Column) -> Column:
    return h.bitwiseAND(BUCKETS - 1).cast("int")


def _fingerprints(side: DataFrame, of: str, *, sized: bool) -> DataFrame:
    named = side.select(f.xxhash64("vault", "name").alias("name"), *(["bytes"] if sized else []))
    one = f.xxhash64("name", "bytes") if sized else f.col("name")
    hashed = named.select(_bucket_of(f.col("name")).alias("bucket"), one.alias("h"))
    again = f.shiftrightunsigned(f.xxhash64("h"), 20)  # 44 bits: a bucket of 500,000 rows does not overflow
    return hashed.groupBy("bucket").agg(
        f.count("*").alias(f"{of}_n"), f.bit_xor("h").alias(f"{of}_x"), f.sum(again).alias(f"{of}_y")
    )


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
    joined = live.join(there, ["vault", "name"], "left")
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
    unknown = objects.join(exact.select(*on), on, "left_anti")
    told = f.col("bytes").alias("size")
    if covers.isEmpty():
        return unknown.select("vault", "key", told, "etag")
    named = unknown.select(*on, f.explode(f.expr(PREFIXES)).alias("prefix"))
    known = covers.select("vault", f.col("name").alias("prefix")).distinct()
    covered = named.join(known, ["vault", "prefix"], "left_semi").select(*on).distinct()
    left = unknown.join(covered, on, "left_anti")
    return left.select("vault", "key", told, "etag")
