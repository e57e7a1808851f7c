"""Runs beside a storage node and deletes its binlogs up to the granted cuts; it opens no database of Sexton."""
