"""A run as others' programs read it: CI servers, Prometheus. Pure functions of its records."""
