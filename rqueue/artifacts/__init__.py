"""Artifacts: bytes that are too large for the queue, in a directory or an S3 API's bucket."""
