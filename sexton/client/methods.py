"""What the synchronous and the asynchronous client have in common: every operation as a method, and the journal.

The parameters, results and errors are those of the functions in ``sexton.operations``, whose modules are imported when
a method is used. Any operation can also be asked for by the words of its command: ``client.ask("round pause",
instance="shop")``.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote

from pydantic import RootModel

from sexton.client.api_call import CHUNK_BYTES, ApiCall, Steps, request, request_of, text
from sexton.client.protecting import RegistrationRequest
from sexton.client.sending import AsyncSender, SyncSender
from sexton.operations.binlogs import MAX_RECORDS, NewRecord, NewRecords
from sexton.replication.binlog.model import MAX_NAMES, StoreResult

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from sexton.operations import binlogs as _binlogs
    from sexton.operations import checks as _checks
    from sexton.operations import control as _control
    from sexton.operations import holds as _holds
    from sexton.operations import instances as _instances
    from sexton.operations import lists as _lists
    from sexton.operations import marks as _marks
    from sexton.operations import plans as _plans
    from sexton.operations import protections as _protections
    from sexton.operations import replicas as _replicas
    from sexton.operations import rounds as _rounds
    from sexton.operations import settings as _settings
    from sexton.operations import tokens as _tokens
    from sexton.operations import topics as _topics
    from sexton.operations import vaults as _vaults
    from sexton.operations import workers as _workers
    from sexton.replication.journal.model import JournalPage, JournalSnapshot

P = ParamSpec("P")
T = TypeVar("T")
ANSWER_SECONDS = 30.0
"""How long the client waits for the answer to a long poll, beyond the poll's own wait."""


class ApiMethod(Generic[P, T]):
    """A method that sends one request or several, and returns ``T``; of an ``AsyncSender``, a coroutine for ``T``."""

    def __init__(self, request: "Callable[P, ApiCall[T] | Steps[T]]") -> None:
        self._request = request

    @overload
    def __get__(self, client: SyncSender, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncSender, owner: type) -> "Callable[P, Coroutine[Any, Any, T]]": ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the method of one client."""

        @wraps(self._request)
        def method(*args: P.args, **kwargs: P.kwargs) -> Any:
            request = self._request(*args, **kwargs)
            return client.send(request) if isinstance(request, ApiCall) else client.send_all(request)

        return method


def sends(_operation: "Callable[Concatenate[Any, P], T]") -> ApiMethod[P, T]:
    """Return the method that an operation becomes; only for the types: ``ApiMethods.__getattr__`` makes it."""
    raise NotImplementedError


def _request(name: str) -> Callable[..., ApiCall[Any]]:
    """Return the function that makes the request of an operation from the arguments of its function."""
    from sexton.operations.registry import operation_of

    operation = operation_of(name)
    signature = inspect.Signature(list(operation.parameters.values()))

    def make(*args: Any, **kwargs: Any) -> ApiCall[Any]:
        return request_of(operation, signature.bind(*args, **kwargs).arguments)

    make.__name__, make.__doc__ = name, operation.about
    make.__signature__ = signature  # type: ignore[attr-defined]
    return make


def journal(after: int, wait: float = 0, follower: str = "", instance: str = "") -> "ApiCall[JournalPage]":
    """Return at most 100 entries of the journal behind ``after``.

    Args:
        after: the last entry that was applied; 0: none.
        wait: how many seconds, up to 30, the API waits for an entry if there is none yet.
        follower: the name of the follower; entries that it has not applied are retained for it.
        instance: needed where there are several.

    Raises:
        TooOld: entries behind ``after`` are deleted. Begin again with ``snapshot``.
        JournalAhead: there was never an entry ``after``. Begin again with ``snapshot``.
    """
    from sexton.replication.journal.model import JournalPage

    query = {"after": str(after), "wait": str(wait), "follower": follower, "instance": instance}
    return ApiCall("GET", "/v1/journal", JournalPage, query=query, timeout_seconds=wait + ANSWER_SECONDS)


def snapshot(follower: str = "", instance: str = "") -> "ApiCall[JournalSnapshot]":
    """Return the state that results from all entries of the journal."""
    from sexton.replication.journal.model import JournalSnapshot

    query = {"follower": follower, "instance": instance}
    return ApiCall("GET", "/v1/journal/snapshot", JournalSnapshot, query=query)


def _ask(operation: str, **values: Any) -> ApiCall[Any]:
    """Run the operation with the words of a command, such as ``round pause``."""
    from sexton.operations.registry import operation_named

    return request_of(operation_named(operation), values)


def _query(instance: str, owner: str, operation: str, **values: Any) -> ApiCall[Any]:
    """Return what an operation reads of an owner's records in Sexton's database; the arguments: as for ``operate``."""
    given = {name: text(value) for name, value in values.items() if value is not None}
    return ApiCall("GET", _owner_path(instance, owner, operation), object, query=given)


def _operate(instance: str, owner: str, operation: str, **values: Any) -> ApiCall[Any]:
    """Change records that an owner keeps in Sexton's database; return the result of the operation.

    ``owner``: as `sexton instance list` prints it. ``operation``: ``sexton OWNER INSTANCE`` prints all of them, with
    their values.
    """
    body = RootModel[dict[str, Any]](values)
    return ApiCall("POST", _owner_path(instance, owner, operation), object, body, repeatable=False)


def _owner_path(*names: str) -> str:
    return "/".join(["/v1/instances", *(quote(name, safe="") for name in names)])


def add_records(db: str, records: Iterable[NewRecord], instance: str = "") -> Steps[StoreResult]:
    """Store records of a database in the order of its commits. A record that is already stored is not stored again.

    The records are sent in as many requests as needed. When one request fails, the records of the earlier requests are
    stored; send all records again.
    """
    stored = StoreResult()
    for chunk in chunks(records):
        body = NewRecords(records=tuple(chunk))
        answer: StoreResult = yield request("add_chunk", db=db, body=body, instance=instance)
        sums = {name: getattr(stored, name) + getattr(answer, name) for name in StoreResult.model_fields}
        stored = StoreResult(**sums)
    return stored


def chunks(records: Iterable[NewRecord]) -> Iterator[list[NewRecord]]:
    """Yield the records in chunks that the API accepts; none if there are no records."""
    chunk, chunk_bytes, chunk_names = list[NewRecord](), 0, 0
    for record in records:
        record_bytes = len(record.model_dump_json()) + 1
        names = len(record.tables) + record.data.count(":")  # at least as many as it has: each is a key in the data
        is_large = chunk_bytes + record_bytes > CHUNK_BYTES or chunk_names + names > MAX_NAMES
        if chunk and (len(chunk) == MAX_RECORDS or is_large):
            yield chunk
            chunk, chunk_bytes, chunk_names = [], 0, 0
        chunk.append(record)
        chunk_bytes += record_bytes
        chunk_names += names
    if chunk:
        yield chunk


class ApiMethods:
    """The requests of the API as methods."""

    ask, query, operate = ApiMethod(_ask), ApiMethod(_query), ApiMethod(_operate)
    register, add_records = ApiMethod(RegistrationRequest.steps), ApiMethod(add_records)
    journal, snapshot = ApiMethod(journal), ApiMethod(snapshot)

    if TYPE_CHECKING:
        status, stop, start = sends(_control.status), sends(_control.stop), sends(_control.start)
        blockers, why, call_log = sends(_control.blockers), sends(_control.why), sends(_control.call_log)
        pace = sends(_control.pace)
        instances, observe, enable = sends(_instances.instances), sends(_instances.observe), sends(_instances.enable)
        owners = sends(_instances.owners)
        vaults, cap, uncap = sends(_vaults.vaults), sends(_vaults.cap), sends(_vaults.uncap)
        probe_vault, trust_vault = sends(_vaults.probe_vault), sends(_vaults.trust_vault)
        plan, plans, plan_review = sends(_plans.plan), sends(_plans.plans), sends(_plans.plan_review)
        plan_marks, reject, apply = sends(_plans.plan_marks), sends(_plans.reject), sends(_plans.apply)
        rounds, round_, run_round = sends(_rounds.rounds), sends(_rounds.round_), sends(_rounds.run_round)
        hold, holds, release_hold = sends(_holds.hold), sends(_holds.holds), sends(_holds.release_hold)
        lists, add_to_list = sends(_lists.lists), sends(_lists.add_to_list)
        remove_from_list = sends(_lists.remove_from_list)
        marks, quarantine = sends(_marks.marks), sends(_marks.quarantine)
        retry_quarantined, discard = sends(_marks.retry_quarantined), sends(_marks.discard)
        admit_commit, end_commit = sends(_marks.admit_commit), sends(_marks.end_commit)
        checks, check, findings = sends(_checks.checks), sends(_checks.check), sends(_checks.findings)
        run_check, accept_finding = sends(_checks.run_check), sends(_checks.accept_finding)
        rebase, repair, inventory = sends(_checks.rebase), sends(_checks.repair), sends(_checks.inventory)
        protections, protection = sends(_protections.protections), sends(_protections.protection)
        register_at_once, register_chunk = sends(_protections.register_at_once), sends(_protections.register_chunk)
        seal, renew, finish = sends(_protections.seal), sends(_protections.renew), sends(_protections.finish)
        release, watermark = sends(_protections.release), sends(_protections.watermark)
        topics, topic, topic_regions = sends(_topics.topics), sends(_topics.topic), sends(_topics.topic_regions)
        explain_topic, purges = sends(_topics.explain_topic), sends(_topics.purges)
        map_regions, heartbeat = sends(_topics.map_regions), sends(_topics.heartbeat)
        enable_topic, disable_topic = sends(_topics.enable_topic), sends(_topics.disable_topic)
        purge, run_topic_round = sends(_topics.purge), sends(_topics.run_topic_round)
        reset_topic, assign_topic = sends(_topics.reset_topic), sends(_topics.assign_topic)
        restored, open_replay = sends(_topics.restored), sends(_topics.open_replay)
        renew_replay, release_replay = sends(_topics.renew_replay), sends(_topics.release_replay)
        logs, explain_log, keep_log = sends(_binlogs.logs), sends(_binlogs.explain_log), sends(_binlogs.keep_log)
        disable_log, approve_cut = sends(_binlogs.disable_log), sends(_binlogs.approve_cut)
        drop_log, add_chunk = sends(_binlogs.drop_log), sends(_binlogs.add_chunk)
        read_records, consumers = sends(_binlogs.read_records), sends(_binlogs.consumers)
        register_consumer, acknowledge = sends(_binlogs.register_consumer), sends(_binlogs.acknowledge)
        remove_consumer, run_binlog_gc = sends(_binlogs.remove_consumer), sends(_binlogs.run_binlog_gc)
        place_replicas, report = sends(_replicas.place_replicas), sends(_replicas.report)
        unwell, replicas, full_copy = sends(_replicas.unwell), sends(_replicas.replicas), sends(_replicas.full_copy)
        backends, decommission, cuts = sends(_replicas.backends), sends(_replicas.decommission), sends(_replicas.cuts)
        acknowledge_cuts, followers = sends(_replicas.acknowledge_cuts), sends(_replicas.followers)
        remove_follower = sends(_replicas.remove_follower)
        create_token, tokens = sends(_tokens.create_token), sends(_tokens.tokens)
        renew_token, revoke_token = sends(_tokens.renew_token), sends(_tokens.revoke_token)
        settings, preview = sends(_settings.settings), sends(_settings.preview)
        set_setting, unset_setting = sends(_settings.set_setting), sends(_settings.unset_setting)
        apply_schedule, list_schedules = sends(_workers.apply_schedule), sends(_workers.list_schedules)
        pause_schedules, resume_schedules = sends(_workers.pause_schedules), sends(_workers.resume_schedules)
        builds, promote = sends(_workers.builds), sends(_workers.promote)
    else:

        def __getattr__(self, name: str) -> Any:
            """Return the method of the operation that a function of this name is."""
            try:
                return ApiMethod(_request(name)).__get__(self, type(self))
            except KeyError:
                raise AttributeError(f"{type(self).__name__} has no method {name}") from None
