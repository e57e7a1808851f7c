"""Protect files while a sync job copies them; a forgotten protection does not block deletion permanently."""
