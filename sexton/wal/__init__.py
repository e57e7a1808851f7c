"""Kafka topics, purged below what every region has flushed. Entry id = Kafka offset in a topic's single partition.

One unit, exclusive: ``keep_from`` is the first entry id that must stay. The RFC's inclusive names are shown at the
edges only: ``last_entry_id`` = keep_from - 1, ``last_purged_entry_id`` = floor - 1.
"""
