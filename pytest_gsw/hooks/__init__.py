"""What comes in by a hook: who raised, what was returned, and a launcher that may do either at any time."""
