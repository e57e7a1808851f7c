"""Open rounds under a lease, schedule them per instance, and close them with a report."""
