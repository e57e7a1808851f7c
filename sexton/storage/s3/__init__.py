"""A vault in an S3 bucket: a listing is complete or a fault, and a key's result is what the store reported."""
