"""Settings that operators change for all workers, without a restart."""
