"""Compose the engine, and run it on Temporal, on Spark and as the embedded stack. Only this layer builds an engine."""
