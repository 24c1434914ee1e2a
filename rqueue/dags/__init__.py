"""Task graphs: plans, submission, operation and views."""
