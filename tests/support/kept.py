"""Read from reports and plans why marks were kept, in the words that operators see."""

from collections.abc import Mapping
from typing import Any

from sexton.marks.kept import LIVE, describe


def kept_texts(holder: Any) -> Mapping[str, int]:
    """Return how many marks a report, receipt, plan or kind kept, by the text of the reason, e.g. ``hold 17``.

    Marks that are live count together, whether they are named or not.
    """
    texts: dict[str, int] = {}
    for kept, marks in holder.kept.items():
        text = describe(LIVE if kept.reason is LIVE.reason else kept)
        texts[text] = texts.get(text, 0) + marks
    return texts
