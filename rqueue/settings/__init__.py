"""Settings of a queue: loading them, the three profiles, and those that may change
while a process runs.
"""
