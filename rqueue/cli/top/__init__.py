"""`rqueue top`: a live view of a queue."""
