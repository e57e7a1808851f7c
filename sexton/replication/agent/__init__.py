"""Runs beside a storage node and deletes its binlogs below the granted cuts; opens no database of Sexton."""
