"""What tqdm paints."""

from __future__ import annotations


def bar_of(done: int, total: int, elapsed_s: float) -> str:
    """A tqdm bar up to the time that is left: the percentage, and ten columns in eighths of a character."""
    whole, eighths = divmod(done * 80 // total, 8)
    columns = "█" * whole + (" ▏▎▍▌▋▊▉"[eighths] if eighths else "")
    left = _interval(elapsed_s / done * (total - done)) if done else "?"
    return f"{100 * done / total:3.0f}%|{columns:<10}| {done}/{total} [{_interval(elapsed_s)}<{left}"


def _interval(seconds: float) -> str:
    """A duration: ``01:02``, ``1:02:03``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"
