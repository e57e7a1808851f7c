"""Knows which versions each replica of a tablet has and lacks, and which versions must therefore be retained."""
