"""Controls: stop switches, lists and windows, which take effect before the next page of deletes."""
