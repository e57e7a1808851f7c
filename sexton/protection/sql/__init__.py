"""The SQL of protections: their register, their end, and what they block."""
