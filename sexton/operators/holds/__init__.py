"""Holds: operators' orders that block deletion of an instance, a mark with its descendants, or a prefix."""
