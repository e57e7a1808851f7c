"""List, compare and delete large numbers of objects on Spark, through Spark Connect only."""
