"""A vault in an S3 bucket."""
