"""Training logs: one reader, and one module for each framework's format."""
