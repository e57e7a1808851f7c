"""Topics, regions, floors and pins, as rows."""
