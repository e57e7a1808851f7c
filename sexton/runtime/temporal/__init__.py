"""The client's side of Temporal: connect, schedules, search attributes, start and signal workflows."""
