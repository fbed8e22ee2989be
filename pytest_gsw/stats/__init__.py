"""Model FLOPs, accelerator peaks, measurement and verdict: pure functions, no I/O."""
