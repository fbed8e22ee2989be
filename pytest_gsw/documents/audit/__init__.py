"""Documents against themselves: every figure that follows from others is computed again, digit for digit."""
