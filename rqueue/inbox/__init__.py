"""The inbox: tasks that producers of any language submit with XADD."""
