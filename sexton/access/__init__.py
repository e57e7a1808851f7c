"""Who may do what over HTTP, and who did."""
