"""Rounds, schedules and reports, as rows."""
