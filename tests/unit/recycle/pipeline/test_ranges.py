"""How many marks a range reads for its next chunk."""

import pytest

from sexton.marks.model import CHUNK_MARKS
from sexton.recycle.pipeline.ranges import marks_to_read


@pytest.mark.parametrize(
    ("limit", "read", "seen", "next_limit"),
    [
        (CHUNK_MARKS, CHUNK_MARKS, CHUNK_MARKS, CHUNK_MARKS),
        (CHUNK_MARKS, CHUNK_MARKS, 50, 63),
        (63, 63, 50, 63),
        (63, 63, 63, 126),
        (600, 600, 600, CHUNK_MARKS),
        (CHUNK_MARKS, 3, 1, 2),
        (2, 2, 1, 2),
        (1, 1, 1, 2),
        (CHUNK_MARKS, CHUNK_MARKS, 0, 1),
    ],
)
def test_a_chunk_reads_about_as_many_marks_as_it_can_claim(limit: int, read: int, seen: int, next_limit: int) -> None:
    assert marks_to_read(limit, read, seen) == next_limit
