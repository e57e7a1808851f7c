"""Tables of protections: what sync jobs still copy."""

from sqlalchemy import CheckConstraint, ForeignKey, UniqueConstraint

from sexton.database.tables.columns import bigint, boolean, bytea, index, instant, jsonb, serial, table, text, word

protection = table(
    "protection",
    serial("id"),
    word("instance", ForeignKey("instance.id")),
    word("job", CheckConstraint("length(job) BETWEEN 1 AND 200")),
    text("owner"),
    text("description", default=""),
    text("state", CheckConstraint("state IN ('OPEN', 'ACTIVE', 'SOFT')")),
    bigint("valid_ts", null=True),
    instant("registered_at"),
    instant("expires_at"),
    instant("finished_at", null=True),
    text("digest"),
    # increased with each change of the coverage, so that a claim that read it before sees that it must read it again
    bigint("changes", default=0),
    jsonb("sizes", default="[]"),  # lengths of its prefixes, in characters
    bytea("filter", null=True),  # a Bloom filter of keys
    bigint("objects", default=0),  # objects and prefixes, or the keys of the filter; counted in its job's quota
    bigint("bytes", default=0),  # of the objects that were looked up
    jsonb("sealed", null=True),  # the result of its registration
    UniqueConstraint("instance", "job"),
)
"""One row per protection: files that stay while a sync job copies them."""

protection_item = table(
    "protection_item",
    word("instance", key=True),
    word("vault", key=True),
    word("key", key=True),
    boolean("prefix", key=True),
    # No foreign key: an ended protection is deleted at once, its items a few at a time. Without it they cover nothing.
    bigint("protection", key=True),
    index("protection_item_of", "protection"),
)
"""One row per key or prefix that a protection covers."""

protection_chunk = table(
    "protection_chunk",
    bigint("protection", ForeignKey("protection.id", ondelete="CASCADE"), key=True),
    bigint("number", key=True),
    text("digest"),
    jsonb("result", null=True),  # the result that was returned for this chunk
)
"""One row per registered chunk of a protection. The same again changes nothing; another of its number is refused."""
