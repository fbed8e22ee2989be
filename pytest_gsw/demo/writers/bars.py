"""What tqdm paints."""

from __future__ import annotations


def bar_of(done: int, total: int) -> str:
    """The percentage and the ten columns of a tqdm bar, in eighths of a character."""
    whole, eighths = divmod(done * 80 // total, 8)
    columns = "█" * whole + (" ▏▎▍▌▋▊▉"[eighths] if eighths else "")
    return f"{100 * done / total:3.0f}%|{columns:<10}"


def interval(seconds: float) -> str:
    """A duration: ``01:02``, ``1:02:03``."""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02d}:{second:02d}" if hours else f"{minute:02d}:{second:02d}"
