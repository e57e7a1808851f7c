"""The owner ``ducklake``: a DuckLake whose catalog is in Sexton's own database."""
