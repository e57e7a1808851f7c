"""Read and write topics, regions, floors and pins in SQL; every decision about a topic holds that topic's row lock."""
