"""What letting a plan go costs, about: requests, money, minutes. Pure."""

from collections.abc import Sequence
from math import ceil
from typing import Protocol

from sexton.kernel.message import Message
from sexton.recycle.model import Plan, RoundReport

ASSUMED_KEYS_PER_SECOND = 3_500
"""The rate taken where no round has deleted anything yet: what a store usually allows for one prefix."""
PAGE_KEYS = 1_000
LOOKS = 2
"""How often a prefix is listed: before it is deleted, and when the upload grace has passed."""


class PriceList(Protocol):
    """The settings of section ``prices``: money for 1,000 requests, and in which currency."""

    @property
    def list_per_1000_requests(self) -> float:
        """Of 1,000 LIST requests."""
        ...

    @property
    def delete_per_1000_requests(self) -> float:
        """Of 1,000 DELETE requests."""
        ...

    @property
    def currency(self) -> str:
        """Three letters, say."""
        ...


class Estimate(Message):
    """About what a plan costs, where nothing is held and no prefix is larger than others of its kind were."""

    objects: int
    delete_requests: int
    list_requests: int
    money: float
    currency: str
    minutes: float
    keys_per_second: float


def rate(reports: Sequence[RoundReport]) -> float:
    """Return the objects per second of these rounds, each kind's time added up; an assumption where nothing went."""
    gone = sum(k.deleted + k.hidden for r in reports for k in r.kinds if k.elapsed_ms)
    took = sum(k.elapsed_ms for r in reports for k in r.kinds if k.deleted + k.hidden)
    return 1000 * gone / took if gone and took else float(ASSUMED_KEYS_PER_SECOND)


def estimate(plan: Plan, prices: PriceList, keys_per_second: float) -> Estimate:
    """Return about what a plan costs; a DELETE names 1,000 keys, a LIST shows as many."""
    objects, under = sum(k.objects for k in plan.kinds), sum(max(0, k.objects - k.keys) for k in plan.kinds)
    deletes = ceil(objects / PAGE_KEYS)
    lists = LOOKS * sum(k.prefixes for k in plan.kinds) + under // PAGE_KEYS
    return Estimate(
        objects=objects,
        delete_requests=deletes,
        list_requests=lists,
        money=(deletes * prices.delete_per_1000_requests + lists * prices.list_per_1000_requests) / 1000,
        currency=prices.currency,
        minutes=objects / keys_per_second / 60,
        keys_per_second=keys_per_second,
    )
