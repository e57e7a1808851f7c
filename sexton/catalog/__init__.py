"""The reference owner: a catalog of tables, indexes, partitions, tablets, rowsets and transactions."""
