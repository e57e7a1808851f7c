"""How fast a store takes deletes: learned from what it says, shared by all workers, bounded by an operator."""
