"""Print values for operators, as tables and lines."""
