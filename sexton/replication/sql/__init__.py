"""Rows of logs that binlogs and replicas share."""
