"""Work that outgrows one process, on Spark through Spark Connect: the same code on one machine and on a cluster."""
