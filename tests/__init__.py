"""Tests in tiers, each a directory; `python -m tests` runs them in order and says what was not run."""
