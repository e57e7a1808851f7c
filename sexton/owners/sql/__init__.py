"""The `sql` owner: any database that calls the SQL functions of Sexton."""
