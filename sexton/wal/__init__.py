"""Purge Kafka topics below the entries that every region has flushed, and never an entry that a region still needs.

An entry id is the Kafka offset in a topic's single partition. Ids are exclusive bounds: ``keep_from`` is the first
entry that must stay. The RFC's inclusive names appear only where values are shown or exchanged: ``last_entry_id`` is
``keep_from`` - 1, ``last_purged_entry_id`` is ``floor`` - 1.
"""
