"""Access to Redis: connections, keys, and calls of the Lua library. Only this package imports
redis-py.
"""
