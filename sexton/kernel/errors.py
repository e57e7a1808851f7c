"""The root of every error that Sexton raises on purpose.

An error's message is one sentence: what happened, and what to do. The CLI prints it without a traceback.
"""

import re


def code_of(error: BaseException) -> str:
    """Return an error's code for programs, such as ``NOT_FOUND``; ``FAILED`` for an error that is not Sexton's.

    The code is the attribute ``name`` of the error, else its class name in capitals.
    """
    if not isinstance(error, SextonError):
        return "FAILED"
    code = getattr(error, "name", None)
    return code if isinstance(code, str) else re.sub(r"(?<=[a-z])(?=[A-Z])", "_", type(error).__name__).upper()


class SextonError(Exception):
    """Sexton refuses or cannot do something; ``str()`` is the sentence for the operator."""

    passes = False
    """Whether the cause is temporary, so that a later attempt may succeed."""


class Left(SextonError):
    """What was started goes on, and its end was not awaited."""


class NotFound(SextonError):
    """The named object does not exist, or no longer; HTTP 404."""


class Conflict(SextonError):
    """The present state does not allow the request, which may succeed in another one; HTTP 409."""


class Ended(SextonError):
    """The object existed, and was deleted or has ended; HTTP 410."""


class TooMany(SextonError):
    """The highest number of such objects is reached; HTTP 429."""


class TooManyObjects(SextonError):
    """One process has listed more objects than its order allows; Spark may go on with them."""


class BadInput(SextonError):
    """A name, key, prefix or number in the input is not acceptable."""


class WrongUsage(BadInput):
    """No state would make it right: values do not fit together, one is missing or malformed; exit code 64."""

    name = "BAD_INPUT"


class GuardBusy(SextonError):
    """An owner's undrop transaction has held the guard of the instance for seconds; decisions about it must wait."""

    passes = True


PACKAGES = {
    "fastapi": "api",
    "jwt": "api",
    "uvicorn": "api",
    "httpx": "client",
    "jinja2": "console",
    "tenacity": "client",
    "cryptography": "embedded",
    "confluent_kafka": "kafka",
    "grpc": "spark",
    "pandas": "spark",
    "pyspark": "spark",
}
"""Package that some parts of Sexton import → the extra that installs it."""


def missing_extra(error: ModuleNotFoundError) -> str:
    """Return which package is missing and how to install it; empty for a package of no extra."""
    package = (error.name or "").partition(".")[0]
    extra = PACKAGES.get(package)
    return f"{package} is not installed; run: pip install 'sexton[{extra}]'" if extra else ""
