"""Workflows: plumbing only. ``ALL`` is what a control worker serves."""

from workflows.recycle import RecycleInstance

ALL = [RecycleInstance]

__all__ = ["ALL", "RecycleInstance"]
