"""Plans, approvals and counts of due marks, as rows."""
