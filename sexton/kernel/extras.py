"""Which extra of the distribution a missing package belongs to."""

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
