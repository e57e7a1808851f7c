"""Sexton: durable garbage collection for databases and data lakes that keep files in object storage."""
