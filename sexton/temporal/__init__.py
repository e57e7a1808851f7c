"""The client's side of Temporal: connect, schedules, search attributes."""
