"""What is measured: one case is one mechanism, batch, method, step and count of steps."""

from __future__ import annotations

from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Case:
    """One thing to do.

    - `mechanism`, `size`: see `mechanisms.system_of`.
    - `batch`: members, with random states; `steps` of `dt` s each.
    - `method`: a fixed-step method by jmbs's name; `tolerance`: adaptive instead (jmbs only; for references).
    - `derivative`: none; or of the squared final state with respect to the initial state: reverse (its gradient),
      forward (along one direction), second (Hessian times a direction), naive (reverse without jmbs's own rules).
    - `audit`: with jmbs's account of energy, residuals and reactions.
    - `precision`, `threads` (0: all), `device` (cpu, gpu): set from the contender.
    """

    mechanism: str
    size: int = 1
    batch: int = 1
    steps: int = 100
    dt: float = 1e-3
    method: str = "rk4"
    tolerance: float | None = None
    derivative: str = "none"
    audit: bool = False
    precision: str = "float64"
    threads: int = 0
    device: str = "cpu"

    @property
    def name(self) -> str:
        """For people and file names."""
        return f"{self.mechanism}{self.size}" if self.mechanism in ("chain", "four_bar") else self.mechanism


@dataclass(frozen=True)
class Contender:
    """One code in one setting; `method` replaces the case's, `audit` is jmbs's."""

    code: str
    precision: str = "float64"
    threads: int = 0
    method: str | None = None
    audit: bool = False
    derivative: str = "none"
    device: str = "cpu"

    @property
    def name(self) -> str:
        """A row's label."""
        threads = {0: "all threads", 1: "1 thread"}[self.threads] if self.device == "cpu" else self.device
        extra = [x for x in (self.method, "audit" if self.audit else None) if x]
        extra += [] if self.derivative == "none" else [self.derivative]
        return " ".join([self.code, self.precision, threads, *extra])

    def case(self, case: Case) -> Case:
        """The case as this contender runs it."""
        derivative = self.derivative if self.derivative != "none" else case.derivative
        settings = {"precision": self.precision, "threads": self.threads, "device": self.device}
        return replace(case, method=self.method or case.method, audit=self.audit, derivative=derivative, **settings)


@dataclass(frozen=True)
class Study:
    """One section of the result: every contender does every case."""

    name: str
    cases: tuple[Case, ...]
    contenders: tuple[Contender, ...]
    repeats: int = 7
    notes: str = field(default="")
