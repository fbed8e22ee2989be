"""All selected rows at once."""
