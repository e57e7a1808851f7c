"""Fixtures and builders that several tiers share.

- ``rig``: a deployment with one instance and one worker's parts; rounds and checks without a workflow
- ``planned``: a rig with limits; many marks at once
- ``claims``: claim and settle marks directly
- ``crashes``: die at a named crash point
- ``door``: hold a process at one
- ``eventually``: wait for a condition
- ``topics``: topics of the embedded log, with regions
- ``places``: buckets and directories, written without Sexton
- ``reader``: directories and databases, read without Sexton
- ``command``: run `sexton` in the test's process
- ``kept``: the reasons for kept marks, as operators see them
- ``scrape``: read metrics as Prometheus does
- ``downloads``: what tests need from Maven and npm
"""
