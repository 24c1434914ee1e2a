"""Services: loops around one `tick()` that can be called by hand."""
