"""Load and explain the settings of a Sexton process; ``sexton.toml`` documents each."""
