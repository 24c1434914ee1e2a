"""What producers use: drafts, batching, handles, waiting for results."""
