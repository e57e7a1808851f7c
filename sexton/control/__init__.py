"""What an operator says about all work, effective within a page: stop, lists, windows."""
