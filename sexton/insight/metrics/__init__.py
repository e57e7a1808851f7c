"""Metrics for Prometheus, read from SQL at each scrape, so that every process reports the same."""
