"""Commands on tasks: enqueue, inspect, explain, change, and process them from a shell."""
