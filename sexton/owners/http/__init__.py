"""The owner ``http``: a system that answers Sexton's questions over HTTP. What it serves: docs/owner-openapi.json."""
