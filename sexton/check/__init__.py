"""Compare records and objects in both directions; store, confirm and repair the findings."""
