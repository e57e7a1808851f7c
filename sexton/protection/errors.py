"""Refusals of the protection register, with the codes that sync jobs know from MatrixOne."""

from typing import ClassVar

from sexton.kernel.errors import BadInput, SextonError


class ProtectionError(SextonError):
    """A protection was refused; ``code`` and ``name`` are the same over API, client and command line."""

    code: ClassVar[int]
    name: ClassVar[str]


class GcIsRunning(ProtectionError):
    """A round runs, and ``strict_gate`` is on."""

    code, name, passes = 20642, "GC_IS_RUNNING", True


class ProtectionNotFound(ProtectionError):
    """No protection of that job."""

    code, name = 20643, "NOT_FOUND"


class Exists(ProtectionError):
    """The job has a protection already: of something else, or one that was finished and still keeps."""

    code, name = 20644, "EXISTS"


class MaxCount(ProtectionError):
    """As many are active as may be."""

    code, name = 20645, "MAX_COUNT"


class SoftDeleted(ProtectionError):
    """The protection was finished; it cannot be renewed."""

    code, name = 20646, "SOFT_DELETED"


class Invalid(ProtectionError, BadInput):
    """What was given is no protection: a filter that cannot be read, a bad key, a time in the past."""

    code, name = 20647, "INVALID"
