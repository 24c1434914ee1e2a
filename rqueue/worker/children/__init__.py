"""Child processes that run handlers of kind "process": the pool in the worker, the program of a
child process, and their messages.
"""
