"""The ``catalog`` owner: the reference catalog of tables, indexes, partitions, tablets and rowsets."""
