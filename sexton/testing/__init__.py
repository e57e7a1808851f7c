"""Tests for code outside of Sexton: the suite that every owner must pass."""

from sexton.testing.owner_suite import OwnerDriver, OwnerSuite
from sexton.testing.workbench import Workbench

__all__ = ["OwnerDriver", "OwnerSuite", "Workbench"]
