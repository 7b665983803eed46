"""The pendulum of `configs/pendulum.yaml` as one would write it with diffrax for this one mechanism, saved as a file.

It is what `first_result` compares the command `jmbs run` with: same method, tolerances and saved times, no account, no
reactions and no pictures.
"""

import sys

import diffrax
import jax
import jax.numpy as jnp
import numpy as np

jax.config.update("jax_enable_x64", True)
GRAVITY, MASS, TO_CENTRE, FRICTION = 9.80665, 1.0, 0.5, 0.05
INERTIA = 0.08354166666666667 + MASS * TO_CENTRE**2  # about the hinge


def rates(t, state, args):
    """Of angle (rad) and rate (rad/s)."""
    angle, rate = state
    return rate, (-MASS * GRAVITY * TO_CENTRE * jnp.sin(angle) - FRICTION * rate) / INERTIA


if __name__ == "__main__":
    solution = diffrax.diffeqsolve(
        diffrax.ODETerm(rates),
        diffrax.Tsit5(),
        t0=0.0,
        t1=10.0,
        dt0=None,
        y0=(jnp.asarray(1.0), jnp.asarray(0.0)),
        saveat=diffrax.SaveAt(ts=jnp.linspace(0.0, 10.0, 501)),
        stepsize_controller=diffrax.PIDController(rtol=1e-8, atol=1e-8),
        max_steps=10_000,
    )
    angle, rate = map(np.asarray, solution.ys)
    np.savez(sys.argv[1], t=np.asarray(solution.ts), angle=angle, rate=rate)
