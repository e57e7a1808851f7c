"""Compose the engine and run it: Temporal, Spark, the embedded stack. The only layer that builds stores."""
