"""The log of calls: who changed or deleted what, when and from where."""
