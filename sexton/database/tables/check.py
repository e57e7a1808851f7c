"""Tables of consistency checks: runs, and what they found."""

from sqlalchemy import CheckConstraint, UniqueConstraint

from sexton.database.tables.columns import bigint, index, instant, jsonb, serial, table, text, word

check_run = table(
    "check_run",
    serial("id"),
    word("instance"),
    word("run"),
    text("state", CheckConstraint("state IN ('RUNNING', 'WHOLE', 'PARTIAL')")),
    instant("cutoff"),
    instant("ended_at", null=True),
    jsonb("evidence", null=True),  # what the run saw so far
    jsonb("missing_inputs", null=True),  # why the run proves nothing; set at its end
    text("asked_by", default=""),
    jsonb("progress", null=True),  # parts of a long run that are done and need not be repeated
    jsonb("open_counts", null=True),  # finding type → open findings at its end, and confirmed ones
    bigint("listed", default=0),  # objects so far
    bigint("records", default=0),  # of the live side, read so far
    bigint("expected_objects", default=0),  # as the last whole run listed and read; 0: unknown
    bigint("expected_records", default=0),
    bigint("counting_ms", default=0),  # how long it has listed and read; 0 once it has ended
    UniqueConstraint("run"),
    index("check_run_of", "instance", "id"),
    index("check_run_cutoff", "instance", "cutoff"),
    index("check_run_running", "instance", where="state = 'RUNNING'"),
)
"""One row per run of a check: the comparison of an instance's records and objects."""

finding = table(
    "finding",
    serial("id"),
    word("instance"),
    word(
        "type",
        CheckConstraint("type IN ('LOST', 'SIZE_MISMATCH', 'ORPHAN', 'UNKNOWN_KIND', 'UPLOAD', 'RECORD', 'FRONT_END')"),
    ),
    word("vault"),
    word("key"),
    bigint("expected", null=True),
    bigint("size", null=True),
    text("etag", default=""),
    text("written", default=""),  # when the object was last written, by its store's clock
    text("record", default=""),
    text("state", CheckConstraint("state IN ('OPEN', 'ACCEPTED', 'REPAIRED', 'GONE')"), default="OPEN"),
    instant("first_seen"),
    bigint("seen_in"),  # the last run that saw it
    instant("proven_at", null=True),  # the cutoff of the first run of an unbroken row of whole runs that saw it
    instant("confirmed_at", null=True),
    text("accepted_by", default=""),
    text("detail", default=""),
    bigint("proven_in", null=True),  # the last whole run that saw it
    word("mark", default=""),  # id of the mark that a repair made of it
    UniqueConstraint("instance", "type", "vault", "key"),
    index("finding_in", "instance", "seen_in"),
    index("finding_mark", "instance", "mark", where="mark <> ''"),
    index("finding_record", "hashtext(substring(record, '[^/]*$'))", where="record <> ''"),  # by the id alone
)
"""One row per difference between records and objects that a check found."""
