"""How long a session waits for a scheduler that is out of reach or full, and how much it asks of it at once."""

from __future__ import annotations

import math

#: How long the scheduler may be out of reach before rows are given up: longer than a controller's restart.
UNKNOWN_LIMIT_S = 600.0
#: After a failure to reach the scheduler: the first wait, and the longest; each is twice the one before.
BACK_OFF_S = 5.0
LONGEST_BACK_OFF_S = 60.0


def is_too_long(away_s: float) -> bool:
    """Whether a scheduler that has been out of reach for so many seconds is waited for no more."""
    return away_s >= UNKNOWN_LIMIT_S


class Patience:
    """When the next rows may be submitted, and how many at once; all times are monotonic seconds.

    Args:
        at_once: How many submissions may be under way while the scheduler takes all of them.
    """

    def __init__(self, at_once: int) -> None:
        #: Why nothing more is submitted for now: the queue is full. Empty where it is not.
        self.full = ""
        #: No row is submitted before.
        self.due_s = -math.inf
        #: How many may be under way by now: one once the scheduler took none, then one more for each that it takes.
        self.window = at_once
        self._at_once = at_once
        self._back_off_s = BACK_OFF_S
        #: When the scheduler last told of a job.
        self._answered_s = -math.inf

    def taken(self) -> None:
        """The scheduler has taken a job."""
        self._back_off_s = BACK_OFF_S
        self.full = ""
        self.window = min(self.window + 1, self._at_once)

    def answered(self, now_s: float) -> None:
        """The scheduler has told of a job."""
        self._answered_s = now_s

    def no_room(self, why: str, now_s: float) -> None:
        """Put off all submissions until a job of this session has left the queue, or a minute has passed."""
        self.full = why
        self.window = 1
        self.due_s = now_s + LONGEST_BACK_OFF_S

    def room(self) -> None:
        """A job of this session has left the queue."""
        if self.full:
            self.due_s = -math.inf

    def is_worth_waiting(self, away_since_s: float, now_s: float) -> bool:
        """Put off all submissions while the scheduler is out of reach; false once that took too long."""
        # One that answers questions is there: it holds all the jobs it can, and takes more when some have ended.
        if is_too_long(now_s - max(away_since_s, self._answered_s)):
            return False
        if now_s >= self.due_s:  # else another row's failure has done so
            self.due_s = now_s + self._back_off_s
            self._back_off_s = min(2 * self._back_off_s, LONGEST_BACK_OFF_S)
            self.window = 1
        return True
