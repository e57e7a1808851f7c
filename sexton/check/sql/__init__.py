"""Check runs, findings and repairs, as rows."""
