"""The ``sql`` owner: any database that calls Sexton's SQL functions."""
