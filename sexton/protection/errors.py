"""The errors of protections, all under ``ProtectionError``, with the codes that sync jobs know from MatrixOne."""

from typing import ClassVar

from sexton.kernel.errors import BadInput, Conflict, NotFound, SextonError, TooMany


class ProtectionError(SextonError):
    """An operation on a protection was refused; ``code`` and ``name`` are the same in API, client and CLI."""

    code: ClassVar[int]
    name: ClassVar[str]


class GcIsRunning(ProtectionError):
    """A round runs, and ``strict_gate`` is on."""

    code, name, passes = 20642, "GC_IS_RUNNING", True


class ProtectionNotFound(NotFound, ProtectionError):
    """The job has no protection."""

    code, name = 20643, "NOT_FOUND"


class Exists(Conflict, ProtectionError):
    """The job has another protection already: of other objects, or one that is finished and still blocks deletion."""

    code, name = 20644, "EXISTS"


class MaxCount(TooMany, ProtectionError):
    """The instance has the maximum number of active protections."""

    code, name = 20645, "MAX_COUNT"


class JobQuotaExceeded(MaxCount):
    """The job, with all of its runs, has used up its own quota: the message names the limit and the setting."""

    name = "JOB_QUOTA"


class SoftDeleted(Conflict, ProtectionError):
    """The protection is finished; it cannot be renewed."""

    code, name = 20646, "SOFT_DELETED"


class Invalid(ProtectionError, BadInput):
    """The request is not valid: an unreadable filter, a bad key, a duration out of range."""

    code, name = 20647, "INVALID"
