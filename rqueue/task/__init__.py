"""Tasks as values: definitions, states, ids, priorities. No I/O and no clock."""
