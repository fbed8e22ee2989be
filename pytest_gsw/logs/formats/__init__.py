"""One module for each framework's log, and their registry."""
