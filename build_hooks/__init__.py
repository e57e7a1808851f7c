"""What builds a distribution."""
