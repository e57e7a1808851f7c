"""Expire binlogs, send tombstones to backends, feed followers, and retain what replicas still need."""
