"""What requests carry and what is answered, for the API and for ``sexton.client``. Instants in ms since 1970."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, FailFast, Field

from sexton.check.model import Finding, Run
from sexton.insight.views import Story
from sexton.kernel.message import Message
from sexton.operators.access.credentials import MAX_PASSWORD, MAX_TTL_SECONDS, MIN_TTL_SECONDS, TTL_SECONDS
from sexton.protection.model import CHUNK_ITEMS
from sexton.recycle.model import Plan
from sexton.recycle.planning.estimate import Estimate
from sexton.wal.model import Topic

MAX_BODY_BYTES = 1 << 20
MAX_ITEMS_BYTES = 16 << 20
"""Of requests that carry objects, or a filter of eight million."""
MAX_LOGIN_BYTES = 4 << 10
MAX_NAME = 4_096
"""Characters of a name: a key of 1,024 bytes, and where it is."""
OnMissing = Literal["fail", "report"]
Names = Annotated[tuple[Annotated[str, Field(max_length=MAX_NAME)], ...], FailFast(), Field(max_length=CHUNK_ITEMS)]
Seconds = Annotated[int, Field(strict=True, description="from now")]
Whole = Annotated[int, Field(strict=True, ge=-(2**63), le=2**63 - 1)]
"""What a database can hold."""
PRINTABLE = r"^[^\x00-\x1f\x7f\u0085\u2028\u2029]*$"
"""One line: it goes into logs."""
Reason = Annotated[str, Field(min_length=1, max_length=500, pattern=PRINTABLE, description="others will read it")]


SCOPE = r"^(read|operate|admin|(node|sync):[A-Za-z0-9][A-Za-z0-9._/-]{0,127})$"
"""As ``sexton.operators.access.policy.scope`` reads it; what is refused here is not repeated."""


class Body(BaseModel):
    """A request's body: a field that is not known is a typing error, not something to pass over."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Credentials(Body):
    """A user and the password. ``scope``: no more than the user's own, which is the default."""

    user: Annotated[str, Field(max_length=200, repr=False, description="a password in the wrong field, perhaps")]
    password: Annotated[str, Field(max_length=MAX_PASSWORD, repr=False)]
    scope: Annotated[str, Field(pattern=SCOPE)] | None = None
    ttl_seconds: Annotated[int, Field(strict=True, ge=MIN_TTL_SECONDS, le=MAX_TTL_SECONDS)] | None = Field(
        None, description=f"from now; {TTL_SECONDS} where it is not said"
    )


class Issued(Message):
    """A token that was asked for with a password. It is told once; its hash is kept."""

    token: str = Field(repr=False)
    id: str
    scope: str
    expires_at: int


class Items(Body):
    """What is protected: ``VAULT/KEY`` or a URL each."""

    objects: Names = ()
    prefixes: Names = ()


class Registration(Items):
    """A protection that is asked for. One that comes in chunks has a ``digest`` of its own making and nothing else."""

    job: Annotated[str, Field(max_length=200)]
    owner: Annotated[str, Field(max_length=200)]
    description: Annotated[str, Field(max_length=500, pattern=PRINTABLE)] = ""
    filter: str | None = Field(None, description="base64, as sexton.protection.filter makes it")
    ttl_seconds: Seconds | None = None
    valid_ts: Whole | None = Field(None, description="the watermark to wait for once it is finished")
    on_missing: OnMissing = "fail"
    digest: str | None = Field(None, pattern="^[0-9A-Za-z]{16,128}$", description="of all chunks that will come")


class Inventory(Body):
    """What a front end has in memory of one kind of record, in a range of ids: beyond ``after``, up to ``until``."""

    kind: Annotated[str, Field(min_length=1, max_length=64)]
    ids: Names
    after: Annotated[str, Field(max_length=MAX_NAME)] = ""
    until: Annotated[str, Field(max_length=MAX_NAME)] = ""


class ChecksBody(BaseModel):
    """Checks, the newest first."""

    checks: tuple[Run, ...]


class Findings(BaseModel):
    """What does not agree, in the order of their numbers."""

    findings: tuple[Finding, ...]


class Seal(Body):
    """The end of a registration in chunks."""

    on_missing: OnMissing = "fail"
    chunks: int | None = Field(None, ge=1, description="how many there must be")


class Renewal(Body):
    """How long a protection goes on."""

    ttl_seconds: Seconds | None = None
    id: Whole | None = Field(None, description="of the protection that is meant; another one of the job is NOT_FOUND")
    at_least: bool = Field(False, description="one that keeps for longer than is asked for is as good")


class Finish(Body):
    """Which protection the job is done with."""

    id: Whole | None = Field(None, description="of the protection that is meant; another one of the job is NOT_FOUND")


class Release(Body):
    """Why a protection ends at once."""

    reason: Reason


class Stop(Body):
    """Why deletion stops."""

    reason: Reason


class Watermark(Body):
    """How far the owner has come, in numbers of its own."""

    value: Annotated[int, Field(strict=True, ge=0, le=2**63 - 1)]


TOPIC = r"^[A-Za-z0-9._-]{1,249}$"
"""As Kafka names topics."""
Region = Annotated[str, Field(min_length=1, max_length=256, pattern=PRINTABLE)]
Entry = Annotated[int, Field(strict=True, ge=0, le=2**63 - 2)]
"""An entry's id; or an epoch, a generation."""
Flushed = Annotated[int, Field(strict=True, ge=0, le=2**58)]
"""An entry's id of which sixteen can be added up."""
MOST_REGIONS = 50_000


class MappedRegion(Body):
    """A region that appends to the topic. ``first``: the topic's end before its first append."""

    region: Region
    epoch: Entry = 0
    first: Entry | None = None


class DroppedRegion(Body):
    """A region that was dropped, and for how long from now that can be undone."""

    region: Region
    undrop_seconds: Annotated[int, Field(strict=True, ge=0, le=315_360_000)] = 0


class RegionMap(Body):
    """All regions of a topic. ``moved``: they append elsewhere now, the last append here answered."""

    generation: Entry
    regions: Annotated[tuple[MappedRegion, ...], Field(max_length=MOST_REGIONS)] = ()
    moved: Annotated[tuple[Region, ...], Field(max_length=MOST_REGIONS)] = ()
    dropped: Annotated[tuple[DroppedRegion, ...], Field(max_length=MOST_REGIONS)] = ()


class StreamReport(Body):
    """How far a stream is flushed, and its idle mark: both inclusive; what is no id is ignored, not refused."""

    flushed: Annotated[int, Field(ge=0)] | None = None
    idle: Annotated[int, Field(ge=0)] | None = None


class RegionReport(Body):
    """What a region's leader says of it in one topic."""

    topic: Annotated[str, Field(pattern=TOPIC)]
    region: Region
    epoch: Annotated[int, Field(ge=0)]
    streams: Annotated[tuple[StreamReport, ...], Field(min_length=1, max_length=16)]
    leader: bool = True


class Heartbeat(Body):
    """What a node says of its regions. ``url``: where it takes ``POST /v1/regions/flush``."""

    url: Annotated[str, Field(max_length=500, pattern=r"^$|^https?://[^\s/]+\S*$")] = ""
    reports: Annotated[tuple[RegionReport, ...], FailFast(), Field(max_length=MOST_REGIONS)] = ()


class Replay(Body):
    """A region that is to be opened. ``flushed``: of each stream the last entry that its manifest names."""

    region: Region
    epoch: Entry
    flushed: Annotated[tuple[Flushed | None, ...], Field(min_length=1, max_length=16)] = (None,)
    node: Annotated[str, Field(max_length=128, pattern=PRINTABLE)] = ""


class Purging(Message):
    """A purge that was asked for."""

    topic: str
    workflow: str
    run: str


class Topics(BaseModel):
    """Topics, in the order of their names."""

    topics: tuple[Topic, ...]


class HealthBody(Message):
    """Whether the database answers."""

    status: Literal["ok", "unavailable"]


class StopResult(Message):
    """What a stop or start came to."""

    instance: str
    stopped: bool
    still: str = ""
    """What else keeps the instance, if anything."""


class Shown(Message):
    """A plan, what it costs, and what beside it keeps what is in it."""

    plan: Plan
    state: str
    estimate: Estimate
    observes: bool = False
    holds: tuple[int, ...] = ()
    halt: str = ""


class Applying(Message):
    """A round that applies a plan has been asked for."""

    plan: int
    instance: str
    workflow: str
    run: str


class StoriesBody(Message):
    """What is known of a key or an id; none: nothing is."""

    stories: tuple[Story, ...]


class ProblemDocument(Message):
    """An RFC 9457 problem document. ``code`` is for programs; ``number`` is MatrixOne's, where there is one."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    number: int | None = None
    first: int | None = None
    """Of what is TOO_OLD: the first that is there."""
