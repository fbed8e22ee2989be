"""Records of runs, and what people read of them: the terminal's lines and JUnit's properties."""
