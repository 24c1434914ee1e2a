"""Child processes that run handlers of kind "process": the pool, the worker's side and the child's
side.
"""
