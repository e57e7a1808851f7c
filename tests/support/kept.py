"""Read from reports and plans why marks were kept, in the words that operators see."""

from collections.abc import Mapping
from typing import Any

from sexton.marks.keepers import describe


def kept_texts(holder: Any) -> Mapping[str, int]:
    """Return how many marks a report, receipt, plan or kind kept, by the text of the reason, e.g. ``hold 17``."""
    return {describe(kept): marks for kept, marks in holder.kept.items()}
