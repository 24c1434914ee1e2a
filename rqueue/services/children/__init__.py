"""Handlers in processes of their own: the pool, a child as its worker sees it, and its inside."""
