"""Heavy listing, comparing and deleting on Spark, through Spark Connect only."""
