"""Tables of protections: what sync jobs still copy."""

from sqlalchemy import BigInteger, Boolean, Column, LargeBinary, Table, Text

from sexton.database.tables.columns import METADATA, Instant, Json, Serial

protection = Table(
    "protection",
    METADATA,
    Column("id", Serial, primary_key=True),
    Column("instance", Text),
    Column("job", Text),
    Column("owner", Text),
    Column("description", Text),
    Column("state", Text),
    Column("valid_ts", BigInteger),
    Column("registered_at", Instant),
    Column("expires_at", Instant),
    Column("finished_at", Instant),
    Column("digest", Text),
    Column("changes", BigInteger),  # increased with each change of the coverage, so that a claim sees a stale snapshot
    Column("sizes", Json),  # lengths of its prefixes, in characters
    Column("filter", LargeBinary),  # a Bloom filter of keys
    Column("objects", BigInteger),  # objects and prefixes, or the keys of the filter; counted in its job's quota
    Column("bytes", BigInteger),  # of the objects that were looked up
    Column("sealed", Json),  # the result of its registration
)
"""One row per protection: files that stay while a sync job copies them."""

protection_item = Table(
    "protection_item",
    METADATA,
    Column("instance", Text, primary_key=True),
    Column("vault", Text, primary_key=True),
    Column("key", Text, primary_key=True),
    Column("prefix", Boolean, primary_key=True),
    # no foreign key: items of an ended protection are deleted a few at a time
    Column("protection", BigInteger, primary_key=True),
)
"""One row per key or prefix that a protection covers."""

protection_chunk = Table(
    "protection_chunk",
    METADATA,
    Column("protection", BigInteger, primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("digest", Text),
    Column("result", Json),  # the result that was returned for this chunk
)
"""One row per registered chunk of a protection: the same chunk again changes nothing."""
