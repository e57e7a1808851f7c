"""Recycle: from a mark to nothing left."""
