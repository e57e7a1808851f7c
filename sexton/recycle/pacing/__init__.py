"""Learn how fast each store accepts deletes, share that rate between workers, respect the operator's cap."""
