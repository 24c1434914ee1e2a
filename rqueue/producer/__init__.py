"""Parts that producers use: drafts, batching, handles, waiting for results."""
