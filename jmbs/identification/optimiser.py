"""How a gradient becomes a step: optimisers of optax, the course of their learning rate, and the size of a batch."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from jmbs.errors import ModelError

NAMES: dict[str, Callable[[], optax.GradientTransformation]] = {
    "adam": optax.scale_by_adam,
    "rmsprop": optax.scale_by_rms,
    "sgd": lambda: optax.trace(decay=0.9),
}
LBFGS = "lbfgs"
"""With curvature from gradients; it steps by `jmbs.identification.lbfgs`."""
SCHEDULES: dict[str, Callable[[float, int], Callable[[int], Any]]] = {
    "constant": lambda rate, _: optax.constant_schedule(rate),
    "cosine": optax.cosine_decay_schedule,
    "linear": lambda rate, steps: optax.linear_schedule(rate, 0.0, steps),
}


@dataclasses.dataclass(frozen=True)
class Optimiser:
    """How `gradient_descent` steps.

    **Arguments:**

    - `name`: `adam`, `rmsprop`, `sgd`, which has a momentum of 0.9, or `lbfgs`, which tells the curvature from the
      gradients of earlier steps, and how far to go from the cost: it takes neither rate nor schedule nor batches.
    - `learning_rate`: the first one. Coordinates are of order one, and adam's steps about as long as the rate.
    - `schedule`: `cosine` or `linear`, which come to zero with the last step, or `constant`.
    - `batch`: how many windows (of recordings that are not cut: recordings) a step looks at; None: all.

    Raises `ModelError`.
    """

    name: str = "adam"
    learning_rate: float = 0.02
    schedule: str = "cosine"
    batch: int | None = None

    def __post_init__(self) -> None:
        for key, known in (("name", (*NAMES, LBFGS)), ("schedule", SCHEDULES)):
            if getattr(self, key) not in known:
                raise ModelError(f"estimator/optimiser/{key}", repr(getattr(self, key)), f"one of {', '.join(known)}")
        if not self.learning_rate > 0:
            raise ModelError("estimator/optimiser/learning_rate", f"{self.learning_rate}", "a positive number")
        if self.batch is not None and self.batch < 1:
            raise ModelError("estimator/optimiser/batch", f"{self.batch}", "1 or more")
        if self.batch is not None and self.name == LBFGS:
            raise ModelError("estimator/optimiser/batch", f"{self.batch} of {LBFGS}", "none: it takes all at each step")

    def rate(self, step: int, steps: int) -> float:
        """The learning rate of a step, of so many."""
        return float(SCHEDULES[self.schedule](self.learning_rate, steps)(step))

    def first_memory(self, z: Float[Array, " k"]) -> Any:
        """What it remembers before the first step."""
        return NAMES[self.name]().init(z)

    def stepped(
        self, z: Float[Array, " k"], gradient: Float[Array, " k"], memory: Any, rate: Float[Array, ""]
    ) -> tuple[Float[Array, " k"], Any]:
        """The coordinates after a step, and what it remembers then; pure."""
        with jax.numpy_dtype_promotion("standard"):  # optax raises floats to integer powers
            direction, memory = NAMES[self.name]().update(gradient, memory, z)
        return z - rate * jnp.asarray(direction, z.dtype), memory
