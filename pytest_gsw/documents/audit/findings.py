"""What an audit finds: values, from which text is made elsewhere."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from fractions import Fraction

#: A share of a figure that decides no verdict: a twentieth of the usual tolerance of 5 %.
SMALL = Fraction(1, 400)


class Severity(enum.Enum):
    """How much a finding weighs."""

    #: No rounding explains it: one of the two figures is wrong, or they are of two runs.
    CONTRADICTION = "contradiction"
    #: The same, by less than :data:`SMALL`.
    DISCREPANCY = "discrepancy"
    #: Not what the formula gives to the last digit, but rounding or cutting explains it.
    ROUNDING = "rounding"
    #: Nothing that arithmetic refutes, and yet worth a look.
    NOTICE = "notice"

    @property
    def plural(self) -> str:
        """Several of them, in words."""
        return "discrepancies" if self is Severity.DISCREPANCY else f"{self.value}s"

    @classmethod
    def by_size(cls, documented: Fraction, *computed: Fraction) -> Severity:
        """How much a difference weighs that no rounding explains, from the nearest of what it may be."""
        nearest = min((abs(documented - value) / abs(value) for value in computed if value), default=SMALL)
        return cls.DISCREPANCY if nearest < SMALL else cls.CONTRADICTION


class Kind(enum.Enum):
    """What may have happened."""

    STEP_TIME_ROUNDED = "step time rounded"
    CUT = "cut, not rounded"
    LAST_DIGIT = "last digit"
    DIGITS_SWAPPED = "digits swapped"
    WRONG_PEAK = "wrong peak"
    FORMULA = "formula"
    SWAPPED_COLUMN = "swapped column"
    STALE_COPY = "stale copy"
    FACTOR = "factor"
    ONE_INPUT = "one of its inputs"
    TYPO = "typo"
    ANOTHER_RUN = "another run"
    UNKNOWN = "unknown"


class Uses(enum.Enum):
    """Which of a finding's two figures the verdict rests on."""

    DOCUMENTED = "documented"
    COMPUTED = "computed"
    NEITHER = "neither"


@dataclass(frozen=True)
class Explanation:
    """What may have happened, shown by a computation that comes out right."""

    kind: Kind
    text: str


@dataclass(frozen=True)
class Finding:
    """One figure that does not follow from the others of its row or document."""

    #: Its name in ``acknowledged``: ``mfu``, ``gpus``, ``line_26``.
    identity: str
    severity: Severity
    #: The row's id; ``None`` for a line of prose.
    row: str | None
    #: The file that line and column count in.
    file: str
    line: int
    column: int
    documented: str
    computed: str
    #: What was computed, in words and numbers.
    formula: str
    #: The likeliest first; never empty.
    explanations: tuple[Explanation, ...]
    uses: Uses
    #: What the verdict rests on, in words.
    verdict: str
    #: The document and line of the figure, where the file is a table that was made from one.
    source: str | None = None
    #: Why this finding is known and stays; ``None`` for a new one.
    acknowledged: str | None = None

    @property
    def explanation(self) -> Explanation:
        """The likeliest explanation."""
        return self.explanations[0]


@dataclass(frozen=True)
class Stale:
    """Something acknowledged that is not found any more."""

    identity: str
    file: str
    line: int
    column: int
    #: The rows that it is acknowledged for.
    rows: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Audited:
    """A row that was audited, and where it stands."""

    id: str
    file: str
    line: int
    column: int


@dataclass(frozen=True)
class Audit:
    """Everything that an audit looked at and found."""

    rows: tuple[Audited, ...]
    #: Documents whose text was read as well.
    documents: tuple[str, ...]
    #: Figures, identities and equations that were computed again.
    checked: int
    #: Files in the order given; in each, the most severe first, then by line.
    findings: tuple[Finding, ...]
    stale: tuple[Stale, ...]

    def new(self, severity: Severity) -> int:
        """How many findings of a severity are not acknowledged."""
        return sum(1 for found in self.findings if found.severity is severity and found.acknowledged is None)

    def known(self, severity: Severity) -> int:
        """How many findings of a severity are acknowledged."""
        return sum(1 for found in self.findings if found.severity is severity and found.acknowledged is not None)

    def fails(self, *, strict: bool = False) -> bool:
        """Whether something new is to be looked at; ``strict`` counts all of it, and what is acknowledged in vain."""
        if strict:
            return bool(self.stale) or any(found.acknowledged is None for found in self.findings)
        return self.new(Severity.CONTRADICTION) > 0
