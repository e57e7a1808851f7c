"""Keep files while a sync job copies them; no forgotten job blocks deletion permanently."""
