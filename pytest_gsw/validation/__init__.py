"""An ended run: what must hold of it before it may be judged."""
