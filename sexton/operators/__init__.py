"""Decisions of operators: controls, holds, registered instances and vaults, and access; and the log of calls."""
