"""What every layer may use: the base error, the base value, crash points."""
