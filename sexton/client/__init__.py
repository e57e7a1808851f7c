"""The API for programs: ``Sexton`` and ``AsyncSexton``, for meta services and for jobs that copy objects elsewhere.

``with client.protect(...)`` keeps what is copied, renews it in the background, and stops the caller when that fails.
"""

from sexton.client.asynchronous import AsyncSexton
from sexton.client.errors import ProtectionLost, Refused, ReplayLost, Unreachable
from sexton.client.replaying import Entry
from sexton.client.sync import Sexton
from sexton.protection.filter import Filter
from sexton.protection.model import Item

__all__ = ["AsyncSexton", "Entry", "Filter", "Item", "ProtectionLost", "Refused", "ReplayLost", "Sexton", "Unreachable"]
