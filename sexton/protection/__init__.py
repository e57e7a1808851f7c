"""Sync protection: what a job copies elsewhere stays while it copies, and no forgotten job keeps it for ever."""
