"""Sexton: durable garbage collection for databases that keep their files in object storage."""

__version__ = "0.1.0"
