"""pytest-gsw: every documented training-performance row is a pytest item."""
