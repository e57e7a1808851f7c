"""The call log: who changed or deleted what, when, from where, and with which outcome."""
