"""A plugin that does nothing."""
