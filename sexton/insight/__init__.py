"""Read-only answers for people: status, blockers, explanations, metrics. Nothing here changes a row."""
