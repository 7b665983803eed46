"""Joints whose coordinates are given functions of time, `q = f(t)`: a drive strong enough for whatever load.

    0 = u_drive - u_joint,    u_drive = df/dt,    f = lambda on the joint

Whoever drives stands outside: the port `p_drive` has a prescribed effort, so that its work is supplied, and the
multiplier is the generalised force by which the joint is driven. The closure holds `q = f(t)` itself.
"""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import is_traced
from jmbs.ephs import Closure, Interface, power_port
from jmbs.errors import ModelError
from jmbs.library.mechanics.body import relative_momentum
from jmbs.library.mechanics.values import TableSpec
from jmbs.library.mechanics.velocity_constraints import negative
from jmbs.lie import Rn

MOTION = "motion"
"""The box of a joint's prescribed motion, and the last word of its drive's port."""


class PrescribedMotion(eqx.Module):
    """Rows between the velocities of a joint and of its drive; power ports `p_drive`, `p_joint` of `size` entries."""

    size: int = eqx.field(static=True)
    lawful_by_construction: ClassVar[bool] = True

    @property
    def ports(self) -> Interface:
        momentum = relative_momentum(Rn(self.size))
        return {name: power_port(momentum.space, momentum.name) for name in ("p_drive", "p_joint")}

    def structure(self, x):
        del x
        one = jnp.eye(self.size)
        return None, jnp.concatenate([one, -one], axis=1)


class MotionDrive(eqx.Module):
    """The drive of a prescribed motion: its effort is the rate of `position`, a twice differentiable function of t (s)
    for coordinates `(k,)`, rad or m, or one for all."""

    position: Any
    size: int = eqx.field(static=True)

    def target(self, t: Float[Array, ""]) -> Float[Array, " k"]:
        """Where the joint is at a time."""
        return jnp.broadcast_to(jnp.asarray(self.position(t), t.dtype), (self.size,))

    def effort(self, t) -> Float[Array, " k"]:
        t = jnp.asarray(t)
        return jax.jvp(self.target, (t,), (jnp.ones_like(t),))[1]


class ConstantMotion(eqx.Module):
    """A coordinate that is held."""

    value: Float[Array, " k"]

    def __call__(self, t) -> Float[Array, " k"]:
        del t
        return self.value


class SplineMotion(eqx.Module):
    """A cubic spline through the rows of a table, twice differentiable; NaN outside the table.

    **Arguments:** `times` `(n,)` increasing, s; `coefficients` `(4, n - 1, k)` of powers 3 to 0 of the time since the
    row before.
    """

    times: Float[Array, " n"]
    coefficients: Float[Array, "4 m k"]

    def __call__(self, t) -> Float[Array, " k"]:
        slack = 1e-9 * (self.times[-1] - self.times[0])
        inside = (t >= self.times[0] - slack) & (t <= self.times[-1] + slack)
        piece = jnp.clip(jnp.searchsorted(self.times, t, side="right") - 1, 0, len(self.times) - 2)
        since, (a, b, c, d) = t - self.times[piece], self.coefficients[:, piece]
        return jnp.where(inside, ((a * since + b) * since + c) * since + d, jnp.nan)

    @classmethod
    def through(cls, times: Any, values: Any) -> SplineMotion:
        """The spline through values `(n, k)` at times `(n,)`, whose ends are not knots (a parabola through three).

        Values may be traced: the spline is linear in them, by a matrix `(n, n)`."""
        from scipy.interpolate import CubicSpline  # here: it takes half as long to import as all of jmbs

        if not is_traced(values):
            spline = CubicSpline(np.asarray(times), np.asarray(values), bc_type="not-a-knot")
            return cls(jnp.asarray(spline.x), jnp.asarray(spline.c))
        times = np.asarray(times)
        slopes = CubicSpline(times, np.eye(len(times)), bc_type="not-a-knot")(times, 1).astype(values.dtype) @ values
        step = np.diff(times)[:, None].astype(values.dtype)
        mean = jnp.diff(values, axis=0) / step
        bend = (slopes[:-1] + slopes[1:] - 2 * mean) / step
        powers = [bend / step, (mean - slopes[:-1]) / step - bend, slopes[:-1], values[:-1]]
        return cls(jnp.asarray(times, values.dtype), jnp.stack(powers))


def motion_drive(value: Any, size: int) -> MotionDrive:
    """The drive from a checked constant `(size,)`, a `TableSpec` of as many columns, or a function of time."""
    if isinstance(value, TableSpec):
        return MotionDrive(SplineMotion.through(value.times, value.values), size)
    return MotionDrive(value if callable(value) else ConstantMotion(jnp.asarray(value)), size)


def require_motion(path: str, function: Any, size: int) -> None:
    """Refuses a function of time that does not give the coordinates of a joint. Raises `ModelError`."""
    wanted = f"a function of time, in operations of JAX, for {'a number' if size == 1 else f'{size} numbers'}"
    try:
        shape = jax.eval_shape(lambda t: jnp.asarray(function(t)), jnp.zeros(())).shape
    except Exception as error:  # a user's function may fail in any way
        found = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
        raise ModelError(path, f"a function that cannot be evaluated ({found})", wanted) from error
    if shape not in ((), (size,)):
        raise ModelError(path, f"a function with values of shape {shape}", wanted)


def motion_closure(joint: str) -> Closure:
    """The position-level closure of the prescribed motion of the joint in this box."""
    path = f"{joint}/{MOTION}"
    return Closure(path, path, (path,), ((f"{joint}/pe", "q_r"),), _error, negative, drive=path)


def _error(parts, states, target) -> Float[Array, " k"]:
    del parts
    return states[0] - target
