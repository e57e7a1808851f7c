"""Name the mark that stands for a whole instance: its owner makes it when the instance is dropped."""

from sexton.marks.model import Ref

WHOLE = Ref("instance", "whole")
ASKS = "everything in the vaults of this instance is deleted, so an operator must approve it"
"""Why the deletion of a whole instance awaits an approval, whatever its size."""
