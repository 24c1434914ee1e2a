"""The command line: it translates words into calls of a queue and answers into lines."""
