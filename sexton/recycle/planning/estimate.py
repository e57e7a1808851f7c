"""Estimate what it costs to apply a plan: requests, money, minutes. Pure."""

from collections.abc import Sequence
from math import ceil

from sexton.kernel.message import Message
from sexton.recycle.model import RoundReport
from sexton.recycle.planning.model import Plan

ASSUMED_KEYS_PER_SECOND = 3_500
"""The rate that is assumed before a round has deleted anything: what a store usually allows for one prefix."""
PAGE_KEYS = 1_000
"""Keys that one DELETE request names, and that one LIST request returns, at most."""
LISTINGS = 2
"""How often a prefix is listed: before it is deleted, and after the upload grace."""


class Estimate(Message):
    """About what a plan costs, if nothing is kept and prefixes are no larger than others of their kind were."""

    objects: int
    delete_requests: int
    list_requests: int
    money: float
    currency: str
    minutes: float
    keys_per_second: float


def rate(reports: Sequence[RoundReport]) -> float:
    """Return the objects deleted per second in these rounds, over the sum of the times of all kinds.

    The time for marks that earlier rounds had claimed counts too, because their objects do. Where nothing was deleted,
    return an assumed rate.
    """
    deleting = [r for r in reports if any(k.deleted + k.hidden for k in r.kinds)]
    deleted = sum(k.deleted + k.hidden for r in deleting for k in r.kinds if k.elapsed_ms or r.adoption_ms)
    elapsed_ms = sum(k.elapsed_ms for r in deleting for k in r.kinds if k.deleted + k.hidden)
    elapsed_ms += sum(r.adoption_ms for r in deleting)
    return 1000 * deleted / elapsed_ms if deleted and elapsed_ms else float(ASSUMED_KEYS_PER_SECOND)


def estimate(plan: Plan, keys_per_second: float, *, list_price: float, delete_price: float, currency: str) -> Estimate:
    """Return about what it costs to apply a plan at this rate. Prices: of 1,000 LIST and DELETE requests."""
    sums = [k.unheld for k in plan.kinds]
    objects = sum(k.objects for k in sums)
    objects_under_prefixes = sum(max(0, k.objects - k.keys) for k in sums)
    delete_requests = ceil(objects / PAGE_KEYS)
    list_requests = LISTINGS * sum(k.prefixes for k in sums) + objects_under_prefixes // PAGE_KEYS
    price = delete_requests * delete_price + list_requests * list_price
    return Estimate(
        objects=objects,
        delete_requests=delete_requests,
        list_requests=list_requests,
        money=price / 1000,
        currency=currency,
        minutes=objects / keys_per_second / 60,
        keys_per_second=keys_per_second,
    )
