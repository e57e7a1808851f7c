"""The way of a mark, one file per step: resolve, claim, delete, settle."""
