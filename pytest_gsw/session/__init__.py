"""What a pytest session does with rows."""
