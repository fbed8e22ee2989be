"""Each framework's log of a simulated run: one module each, and a registry."""
