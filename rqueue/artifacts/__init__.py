"""Artifacts: data that is too large for Redis, stored in a directory or an S3 bucket."""
