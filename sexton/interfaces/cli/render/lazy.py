"""Renderers that are imported when something is printed, so that the start of a command is quick."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazy(module: str, name: str) -> Callable[..., Any]:
    """Return a function of a module of this package, which is imported when it is called."""

    def call(*values: Any) -> Any:
        return getattr(import_module(f"sexton.interfaces.cli.render.{module}"), name)(*values)

    return call
