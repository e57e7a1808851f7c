"""The life of a mark: MARKED, CLAIMED, GONE. The heart of Sexton."""
