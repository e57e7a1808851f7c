"""Hold the result of resolving a chunk of due marks: stored files, candidates for the claim, marks left out."""

from collections import Counter

from sexton.marks.keepers import Kept
from sexton.marks.model import Candidate, DueMark, File, Place, Ref, Unresolvable


class Chunk:
    """Filled by ``Resolver``, read by the claim."""

    def __init__(self, files_after: int = 0) -> None:
        """``files_after``: the number of the last file that is stored; the chunk's files are numbered above it."""
        self.files_after = self.last_file = files_after
        self.unstored: list[File] = []
        """Files that are listed and not stored yet."""
        self.seen = 0
        """How many of the due marks, in their order, the chunk covers."""
        self.files = 0
        self.resolved: list[DueMark] = []
        """Marks whose files are stored."""
        self.vaults: dict[Ref, frozenset[str]] = {}
        self.prefixes: dict[Ref, list[Place]] = {}
        self.candidates: dict[Ref, Candidate] = {}
        """Candidates: the marks, and the children that are claimed with them."""
        self.kept: Counter[Kept] = Counter()
        self.protected_bytes = 0
        """Bytes, as the owner states them, of marks that only protections keep."""
        self.unresolvable: list[Unresolvable] = []

    @property
    def refs(self) -> list[Ref]:
        """Return the names of the marks whose files are stored."""
        return [mark.ref for mark in self.resolved]

    @property
    def resolved_candidates(self) -> list[Candidate]:
        """Return the marks whose files are stored, as candidates for a claim."""
        return [self.candidates[ref] for ref in self.refs]

    @property
    def quarantined(self) -> set[Ref]:
        """Return the names of the marks that could not be resolved."""
        return {problem.mark.ref for problem in self.unresolvable}
