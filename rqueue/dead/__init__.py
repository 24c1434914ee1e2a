"""Dead tasks: review, decisions, clusters of failures."""
