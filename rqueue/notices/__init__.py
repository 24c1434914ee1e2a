"""Notices of events: sinks, delivery and wording."""
