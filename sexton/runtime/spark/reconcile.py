"""Find objects without records and records without objects, by a join in each direction.

Both sides are nearly equal, so fingerprints of buckets are compared first, and only the buckets that differ are joined.
For objects that no record names, their prefixes are looked up last.

The functions take frames and return frames; they collect none. Frames are joined by ``name``, the canonical form of a
key. No name is null: an anti-join would keep a null on one side and lose it on the other.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from pyspark.sql import Column, DataFrame
from pyspark.sql.connect import functions as f

PREFIXES = (
    "filter(transform(sequence(1, length(name)), i -> substring(name, 1, i)), "
    "p -> not (substring(p, -1, 1) rlike '^[A-Za-z0-9.-]$'))"
)
"""All prefixes of a name that end with a separator, as in ``marks.policy.covering_prefixes``."""

FEW_BUCKETS, MOST_BUCKETS = 1 << 16, 1 << 23
"""Fingerprints of few buckets need no shuffle. Many buckets are compared where too many of the few differ."""
ROWS_A_BUCKET = 16
MOST_DIFFERING = 0.25
"""The share of buckets that may differ: where more do, joining everything costs less than reading both sides twice."""


def bucket_counts(rows: int) -> tuple[int, ...]:
    """Return into how many buckets so many rows are divided: at first, and where too many of these differ. Pure."""
    many = min(MOST_BUCKETS, 1 << max(0, rows // ROWS_A_BUCKET).bit_length())
    return (FEW_BUCKETS, many) if many > FEW_BUCKETS else (FEW_BUCKETS,)


def differing(objects: DataFrame, exact: DataFrame, buckets: int) -> DataFrame:
    """Return the buckets in which the objects and the known names (vault, name, bytes), or their sizes, differ.

    A bucket holds 64-bit hashes of names; there are ``buckets``, a power of 2. Its fingerprint is their number, their
    exclusive-or, and a sum, in which equal rows do not cancel out. Two different buckets have the same fingerprint with
    a chance of 2^-100, or 2^-44 where rows are repeated: then a finding is missed, and nothing is reported wrongly. A
    name without a size makes its bucket differ where others have one.
    """
    sized = exact.select("bytes").where("bytes is not null").limit(1).count() > 0
    object_buckets = _fingerprints(objects, "o", buckets, sized=sized)
    known_buckets = _fingerprints(exact, "k", buckets, sized=sized)
    same = f.lit(True)
    for part in ("n", "x", "y"):
        same &= f.col(f"o_{part}").eqNullSafe(f.col(f"k_{part}"))
    return object_buckets.join(known_buckets, "bucket", "full_outer").where(~same).select("bucket")


@contextmanager
def narrowed(objects: DataFrame, exact: DataFrame, rows: int) -> Iterator[tuple[DataFrame, DataFrame]]:
    """Yield the rows of buckets that differ, which Spark caches as long as the context lasts.

    These are few, and are joined by hash. Where everything is joined, it is sorted: no part has to fit into memory.
    ``rows``: about how many objects there are.
    """
    with ExitStack() as cached:
        for buckets in bucket_counts(rows):
            different = _cached(cached, differing(objects, exact, buckets))
            if different.count() <= MOST_DIFFERING * buckets:
                bucket = _bucket_of(f.xxhash64("vault", "name"), buckets)
                numbered = (side.withColumn("bucket", bucket) for side in (objects, exact))
                some, some_exact = (
                    _cached(cached, side.join(f.broadcast(different), "bucket", "left_semi").drop("bucket"))
                    for side in numbered
                )
                yield some, some_exact.hint("shuffle_hash")
                return
        yield objects, exact


def _cached(stack: ExitStack, frame: DataFrame) -> DataFrame:
    """Let Spark cache a frame until the stack is closed."""
    frame = frame.persist()
    stack.callback(frame.unpersist)
    return frame


def _bucket_of(h: Column, buckets: int) -> Column:
    return h.bitwiseAND(buckets - 1).cast("int")


def _fingerprints(side: DataFrame, prefix: str, buckets: int, *, sized: bool) -> DataFrame:
    names = side.select(f.xxhash64("vault", "name").alias("name"), *(["bytes"] if sized else []))
    row_hash = f.xxhash64("name", "bytes") if sized else f.col("name")
    hashed = names.select(_bucket_of(f.col("name"), buckets).alias("bucket"), row_hash.alias("h"))
    summand = f.shiftrightunsigned(f.xxhash64("h"), 20)  # 44 bits: a bucket of 500,000 rows does not overflow
    return hashed.groupBy("bucket").agg(
        f.count("*").alias(f"{prefix}_n"), f.bit_xor("h").alias(f"{prefix}_x"), f.sum(summand).alias(f"{prefix}_y")
    )


def forward(objects: DataFrame, exact: DataFrame, whole: Sequence[str]) -> DataFrame:
    """Return live files that are LOST or have another size, in the vaults (``whole``) whose listing is complete.

    With the columns type, vault, key, expected, size, etag, written and record. ``objects``: vault, name, key, bytes,
    etag, written. ``exact``: vault, name, key, live, bytes, record.
    """
    live = exact.where(exact.live & exact.vault.isin(list(whole))).select(
        "vault", "name", "key", f.col("bytes").alias("expected"), "record"
    )
    listed = objects.select(
        "vault", "name", f.col("key").alias("object_key"), f.col("bytes").alias("size"), "etag", "written"
    )
    joined = live.join(listed, ["vault", "name"], "left")
    lost = f.col("object_key").isNull()
    other_size = (f.col("object_key") == f.col("key")) & (f.col("size") != f.col("expected"))
    return joined.where(lost | other_size).select(
        f.when(lost, "LOST").otherwise("SIZE_MISMATCH").alias("type"),
        *("vault", "key", "expected", "size", "etag", "written", "record"),
    )


def empty_prefixes(objects: DataFrame, covers: DataFrame, whole: Sequence[str]) -> DataFrame:
    """Return live prefixes without any object as LOST: type, vault, key, record.

    ``objects``: vault, name. ``covers``: vault, name, key, live, record of prefixes. ``whole``: as in ``forward``.
    """
    on = ["vault", "prefix"]
    live = covers.where(covers.live & covers.vault.isin(list(whole)))
    live = live.select("vault", f.col("name").alias("prefix"), "key", "record").dropDuplicates(on)
    below = objects.select("vault", f.explode(f.expr(PREFIXES)).alias("prefix"))
    used = below.join(live.select(*on), on, "left_semi").distinct()
    return live.join(used, on, "left_anti").select(f.lit("LOST").alias("type"), "vault", "key", "record")


def inverted(objects: DataFrame, exact: DataFrame, covers: DataFrame) -> DataFrame:
    """Return the objects that no record names: vault, key, size, etag, written.

    ``objects``: vault, name, key, bytes, etag, written; only those old enough to be judged. ``exact``: vault and name
    of the known files. ``covers``: the same of the prefixes under which all objects are known.
    """
    on = ["vault", "name"]
    unknown = objects.join(exact.select(*on), on, "left_anti")
    columns = ("vault", "key", f.col("bytes").alias("size"), "etag", "written")
    if covers.isEmpty():
        return unknown.select(*columns)
    prefixes = unknown.select(*on, f.explode(f.expr(PREFIXES)).alias("prefix"))
    known = covers.select("vault", f.col("name").alias("prefix")).distinct()
    covered = prefixes.join(known, ["vault", "prefix"], "left_semi").select(*on).distinct()
    uncovered = unknown.join(covered, on, "left_anti")
    return uncovered.select(*columns)
