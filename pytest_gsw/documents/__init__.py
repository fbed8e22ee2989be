"""Recipes' documents: reading, auditing and comparing them."""
