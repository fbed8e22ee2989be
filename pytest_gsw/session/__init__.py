"""The parts of a pytest session that concern rows."""
