"""Store rounds, schedules and reports as rows."""
