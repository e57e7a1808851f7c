"""Stop switches, lists and windows that apply to all work within one page of deletes."""
