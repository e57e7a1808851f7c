"""Export metrics for Prometheus, read from SQL at each scrape, so that all processes report the same."""
