"""Delete marked objects after their retention: plan, then lease, resolve, claim, delete, settle, forget."""
