"""Which workers run, of which build, and with which settings: they report it, and `sexton doctor` compares it."""
