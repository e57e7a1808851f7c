"""What operators request: holds, marks, quarantine, rounds, plans, checks, instances, vaults, lists, the log."""

from sexton.client.api_call import ApiCall, url_path, url_query
from sexton.protocol.checks import Acceptance, Finding, Repaired, RepairOrder, StartedCheck
from sexton.protocol.operating import (
    CallPage,
    ControlList,
    Discarding,
    Hold,
    HoldPage,
    InstanceList,
    ListChange,
    ListEntry,
    ListName,
    MarkPage,
    MarkQuery,
    NewCap,
    NewHold,
    Paces,
    PlacedHold,
    PlanPage,
    PlanRow,
    Quarantined,
    Rejection,
    Retried,
    RetryOrder,
    RoundDetails,
    RoundPage,
    Signal,
    Signalled,
    VaultList,
    Why,
)
from sexton.protocol.plans import StartedRound


def instances() -> ApiCall[InstanceList]:
    """Return the instances that the token covers."""
    return ApiCall("GET", "/v1/instances", InstanceList)


def enable(instance: str, reason: str = "") -> ApiCall[None]:
    """Allow rounds of an instance to delete."""
    return ApiCall("POST", url_path("instances", instance, "enable"), None, Why(reason=reason))


def observe(instance: str, reason: str = "") -> ApiCall[None]:
    """Let rounds of an instance only plan and report."""
    return ApiCall("POST", url_path("instances", instance, "observe"), None, Why(reason=reason))


def vaults(instance: str, *, prove: bool = False) -> ApiCall[VaultList]:
    """Return the vaults of an instance; ``prove``: compare their markers now."""
    query = url_query(prove="true" if prove else None)
    return ApiCall("GET", url_path("instances", instance, "vaults"), VaultList, query=query)


def cap(instance: str, vault: str, keys_per_second: int, reason: str = "") -> ApiCall[None]:
    """Cap the deletions in a vault."""
    body = NewCap(keys_per_second=keys_per_second, reason=reason)
    return ApiCall("PUT", url_path("instances", instance, "vaults", vault, "cap"), None, body)


def clear_cap(instance: str, vault: str) -> ApiCall[None]:
    """Remove the cap of a vault."""
    return ApiCall("DELETE", url_path("instances", instance, "vaults", vault, "cap"), None)


def pace() -> ApiCall[Paces]:
    """Return how fast each place is deleted from."""
    return ApiCall("GET", "/v1/pace", Paces)


def plans(instance: str, after: str = "", limit: int = 20) -> ApiCall[PlanPage]:
    """Return plans, the newest first; ``after``: ``next`` of the page before."""
    return ApiCall("GET", url_path("instances", instance, "plans"), PlanPage, query=_page(after, limit))


def reject(plan: int, reason: str) -> ApiCall[PlanRow]:
    """Reject a plan that awaits approval."""
    return ApiCall("POST", url_path("plans", plan, "reject"), PlanRow, Rejection(reason=reason), repeatable=False)


def rounds(instance: str, after: str = "", limit: int = 20) -> ApiCall[RoundPage]:
    """Return rounds, the newest first; ``after``: ``next`` of the page before."""
    return ApiCall("GET", url_path("instances", instance, "rounds"), RoundPage, query=_page(after, limit))


def round_(instance: str, number: int) -> ApiCall[RoundDetails]:
    """Return the report of one round, or how far it is."""
    return ApiCall("GET", url_path("instances", instance, "rounds", number), RoundDetails)


def run_round(instance: str) -> ApiCall[StartedRound]:
    """Start one round now. Do not wait for its end."""
    return ApiCall("POST", url_path("instances", instance, "rounds"), StartedRound, repeatable=False)


def signal_round(instance: str, signal: Signal) -> ApiCall[Signalled]:
    """Signal the running round: ``cancel``, ``pause``, ``resume`` or ``retry``."""
    return ApiCall("POST", url_path("instances", instance, "rounds", "running", signal), Signalled)


def run_check(instance: str) -> ApiCall[StartedCheck]:
    """Start a check now. Do not wait for its end."""
    return ApiCall("POST", url_path("instances", instance, "checks"), StartedCheck, repeatable=False)


def accept_finding(instance: str, finding: int, reason: str) -> ApiCall[Finding]:
    """Accept a finding as correct."""
    path = url_path("instances", instance, "findings", finding, "accept")
    return ApiCall("POST", path, Finding, Acceptance(reason=reason))


def repair(instance: str, order: RepairOrder) -> ApiCall[Repaired]:
    """Repair confirmed findings of the last check. Deletes nothing."""
    return ApiCall("POST", url_path("instances", instance, "repair"), Repaired, order)


def holds(instance: str, after: str = "", limit: int = 100, *, ended: bool = False) -> ApiCall[HoldPage]:
    """Return holds, the newest first; ``ended``: also those that were released or have expired."""
    query = _page(after, limit, ended="true" if ended else None)
    return ApiCall("GET", url_path("instances", instance, "holds"), HoldPage, query=query)


def hold(instance: str, new: NewHold) -> ApiCall[PlacedHold]:
    """Place a hold."""
    return ApiCall("POST", url_path("instances", instance, "holds"), PlacedHold, new, repeatable=False)


def release_hold(instance: str, number: int, reason: str = "") -> ApiCall[Hold]:
    """End a hold now."""
    return ApiCall("POST", url_path("instances", instance, "holds", number, "release"), Hold, Why(reason=reason))


def marks(instance: str, which: MarkQuery | None = None) -> ApiCall[MarkPage]:
    """Return one page of an instance's marks."""
    query = url_query(**(which or MarkQuery()).model_dump(exclude_defaults=True))
    return ApiCall("GET", url_path("instances", instance, "marks"), MarkPage, query=query)


def retry_quarantined(instance: str, order: RetryOrder) -> ApiCall[Retried]:
    """Let the next round try quarantined marks again."""
    return ApiCall("POST", url_path("instances", instance, "quarantine", "retry"), Retried, order, repeatable=False)


def discard(instance: str, mark: str, reason: str) -> ApiCall[Quarantined]:
    """Give up a mark (``KIND/ID``) that is quarantined or waits for its second pass."""
    body = Discarding(mark=mark, reason=reason)
    return ApiCall(
        "POST", url_path("instances", instance, "quarantine", "discard"), Quarantined, body, repeatable=False
    )


def lists() -> ApiCall[ControlList]:
    """Return stops and the entries of all lists."""
    return ApiCall("GET", "/v1/lists", ControlList)


def add_to_list(list_: ListName, name: str, reason: str = "") -> ApiCall[ListChange]:
    """Put an entry on a list."""
    return ApiCall("POST", url_path("lists", list_, "add"), ListChange, ListEntry(name=name, reason=reason))


def remove_from_list(list_: ListName, name: str, reason: str = "") -> ApiCall[ListChange]:
    """Take an entry off a list."""
    return ApiCall("POST", url_path("lists", list_, "remove"), ListChange, ListEntry(name=name, reason=reason))


def call_log(instance: str | None = None, who: str = "", after: str = "", limit: int = 100) -> ApiCall[CallPage]:
    """Return calls, the newest first; ``who``: a part of the caller's name."""
    return ApiCall("GET", "/v1/log", CallPage, query=_page(after, limit, instance=instance, who=who or None))


def _page(after: str, limit: int, **more: str | None) -> dict[str, str]:
    return url_query(after=after or None, limit=limit, **more)
