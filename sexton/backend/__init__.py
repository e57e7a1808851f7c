"""What runs beside a storage node and removes its binlogs below the cuts that it is granted; without our database."""
