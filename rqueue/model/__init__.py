"""Pure nouns: what a task is and what may happen to it. No clock, no socket, no dice."""
