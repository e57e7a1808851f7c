"""Name the mark that stands for a whole instance: its owner makes it when the instance is dropped."""

from sexton.marks.model import Ref

WHOLE = Ref("instance", "whole")
