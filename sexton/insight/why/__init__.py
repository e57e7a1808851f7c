"""Explain one object or mark: what happened to it, and what blocks its deletion now."""
