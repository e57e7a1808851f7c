"""What Prometheus sees of a deployment, read from SQL at each scrape: equal in every process, whole after a restart."""
