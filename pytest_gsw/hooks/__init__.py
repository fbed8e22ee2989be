"""Checks of hooks' results, and errors that name the plugin and the place."""
