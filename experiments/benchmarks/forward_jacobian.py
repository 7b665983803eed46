"""What derivatives by parameters cost in forward mode, in runs: single mechanisms, fixed steps of RK4, on a CPU.

`python -m experiments.benchmarks.forward_jacobian` prints a table. A row is a mechanism and a number p of parameters:
milliseconds of a run, and in runs one `jax.jvp`, the Jacobian with `adjoint="direct"` and with `adjoint="forward"`,
what the latter shall cost at most, and central differences; medians of turns. Then seconds to compile a run and either
Jacobian, and their operations of StableHLO.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import jmbs
from experiments.benchmarks.program_sizes import count
from experiments.benchmarks.tables import table

CONFIGS = Path(__file__).parents[2] / "configs"
GRAVITY = (0.0, 0.0, -9.81)
STEPS, SAVED, DT = 1000, 101, 1e-3
"""Of a run, if nobody says otherwise; the step in s."""
PARAMETERS = (1, 4, 10)
HEAD = ["mechanism", "p", "run, ms", "jvp", "direct", "forward", "goal", "differences", "compile, s", "operations"]


def double_pendulum(**spring: float) -> tuple[jmbs.Mechanism, list[str]]:
    """Two rods on damped hinges, and ten of its parameters; with a `spring` in each hinge, if given."""
    more = {"spring": spring} if spring else {}
    mechanism = jmbs.Mechanism("double_pendulum", gravity=GRAVITY)
    for i, parent in (1, "ground"), (2, "rod1"):
        mechanism.add_body(f"rod{i}", mass=1.0, inertia=[0.02, 0.02, 0.001])
        below = None if i == 1 else {"position": [0.0, 0.0, -0.25]}
        above = {"position": [0.0, 0.0, 0.25]}
        more |= {"axis": [0.0, 1.0, 0.0], "friction": {"viscous": 0.05}}
        mechanism.add_joint(f"hinge{i}", "revolute", parent, f"rod{i}", below, above, **more)
        mechanism.set_initial(joints={f"hinge{i}": {"q": [1.0 * i], "v": [0.5]}})
    names = ["rod2/mass", "rod1/mass", "hinge1/friction/viscous", "hinge2/friction/viscous", "rod1/inertia"]
    frames = ["hinge2/parent_frame/position", "hinge1/child_frame/position", "hinge2/child_frame/position"]
    return mechanism, [*names, "rod2/inertia", *frames, "gravity"]


def sprung_pendulum() -> tuple[jmbs.Mechanism, list[str]]:
    """The same with springs in its hinges, whose stiffness comes first."""
    mechanism, names = double_pendulum(stiffness=3.0)
    return mechanism, [*(f"hinge{i}/spring/stiffness" for i in (1, 2)), *names[:8]]


def tied_pendulum() -> tuple[jmbs.Mechanism, list[str]]:
    """The double pendulum with a spring and damper between the second rod and the ground."""
    mechanism, names = double_pendulum()
    _tie(mechanism, "rod2")
    return mechanism, ["tie/stiffness", "tie/damping", *names[:8]]


def _tie(mechanism: jmbs.Mechanism, body: str) -> None:
    ends = [0.5, 0.0, 0.3], [0.0, 0.0, 0.1]
    mechanism.add_spring_damper("tie", "ground", body, *ends, stiffness=20.0, length=0.4, damping=0.3)


def geared_pendulum() -> tuple[jmbs.Mechanism, list[str]]:
    """The double pendulum with a wheel that a gear binds to its first hinge."""
    mechanism, names = double_pendulum()
    mechanism.add_body("wheel", mass=0.5, inertia=[0.01, 0.02, 0.01])
    mechanism.add_joint("axle", "revolute", "ground", "wheel", {"position": [1.0, 0.0, 0.0]}, axis=[0.0, 1.0, 0.0])
    mechanism.add_constraint("mesh", "gear", joint="axle", driver="hinge1", ratio=2.0)
    return mechanism, ["mesh/ratio", *names[:9]]


def four_bar() -> tuple[jmbs.Mechanism, list[str]]:
    """Crank, coupler and rocker between fixed hinges, in space: one closed loop; and ten of its parameters."""
    mechanism = jmbs.Mechanism("four_bar", gravity=GRAVITY)
    bodies = {"crank": 0.3, "coupler": 0.9, "rocker": 0.7}
    for name, length in bodies.items():
        mechanism.add_body(name, mass=length, inertia=[0.001, length**3 / 12, length**3 / 12])
    half = {name: length / 2 for name, length in bodies.items()}
    end = lambda name, sign: {"position": [sign * half[name], 0.0, 0.0]}  # noqa: E731
    for joint, parent, child, parent_frame, child_frame in (
        ("crank_bearing", "ground", "crank", None, end("crank", -1)),
        ("crank_pin", "crank", "coupler", end("crank", 1), end("coupler", -1)),
        ("rocker_bearing", "ground", "rocker", {"position": [0.8, 0.0, 0.0]}, end("rocker", -1)),
        ("rocker_pin", "coupler", "rocker", end("coupler", 1), end("rocker", 1)),
    ):
        friction = {"viscous": 0.02}
        axis = [0.0, -1.0, 0.0]
        mechanism.add_joint(joint, "revolute", parent, child, parent_frame, child_frame, axis=axis, friction=friction)
    mechanism.set_initial(joints={"crank_bearing": {"q": [1.0], "v": [5.0]}})
    names = ["coupler/mass", "crank/mass", "rocker/mass", "crank_bearing/friction/viscous"]
    lengths = ["crank_pin/parent_frame/position", "crank_pin/child_frame/position", "rocker_pin/child_frame/position"]
    return mechanism, [*names, "coupler/inertia", "rocker/inertia", *lengths, "rocker_bearing/friction/viscous"]


def tied_four_bar() -> tuple[jmbs.Mechanism, list[str]]:
    """The same with a spring and damper between its coupler and the ground."""
    mechanism, names = four_bar()
    _tie(mechanism, "coupler")
    return mechanism, ["tie/stiffness", "tie/damping", *names[:8]]


def arm() -> tuple[jmbs.Mechanism, list[str]]:
    """The Panda arm with its fingers locked, and ten of its parameters."""
    names = [f"link{i}/mass" for i in (7, 4, 2)] + ["panda_joint4/friction/viscous", "link4/inertia", "link3/mass"]
    frames = ["panda_joint4/parent_frame/position", "panda_joint5/child_frame/position"]
    return jmbs.load(CONFIGS / "panda_arm.yaml"), [*names, *frames, "panda_joint2/friction/viscous", "gravity"]


MECHANISMS = {
    "double pendulum": double_pendulum,
    "sprung pendulum": sprung_pendulum,
    "tied pendulum": tied_pendulum,
    "geared pendulum": geared_pendulum,
    "four-bar": four_bar,
    "tied four-bar": tied_four_bar,
    "arm": arm,
}


def outputs_of(
    mechanism: jmbs.Mechanism, names: list[str], adjoint: str, steps: int = STEPS
) -> Callable[[Float[Array, " p"]], Array]:
    """Joint coordinates at saved times, by relative changes `theta` of parameters."""
    model = jmbs.compile(mechanism)
    nominal = {name: np.asarray(model.parameters()[name]["value"]) for name in names}
    ts = np.linspace(0.0, steps * DT, SAVED)

    def outputs(theta: Float[Array, " p"]) -> Array:
        changed = {name: (1.0 + theta[k]) * nominal[name] for k, name in enumerate(names)}
        run = jmbs.simulate(
            model.with_parameters(changed), ts=ts, dt=DT, solver="rk4", audit=False, throw=False, adjoint=adjoint
        )
        return jnp.concatenate([run.q[joint].reshape(SAVED, -1) for joint in sorted(run.q)], axis=1)

    return outputs


def with_jacobian(outputs: Callable, theta: Array) -> tuple[Array, Array]:
    """Outputs, and their derivatives, which have the parameters first."""
    return jax.vmap(lambda e: jax.jvp(outputs, (theta,), (e,)), out_axes=(None, 0))(jnp.eye(len(theta)))


def central(outputs: Callable, theta: Array, step: float = 1e-5) -> Array:
    """Derivatives by central differences, one run after the other."""

    def one(e: Array) -> Array:
        return (outputs(theta + step * e) - outputs(theta - step * e)) / (2 * step)

    return jax.lax.map(one, jnp.eye(len(theta)))


def medians(programs: dict[str, Callable], theta: Array, repeats: int) -> dict[str, float]:
    """Seconds of each, run in turns."""
    seconds: dict[str, list[float]] = {name: [] for name in programs}
    for program in programs.values():
        jax.block_until_ready(program(theta))
    for _ in range(repeats):
        for name, program in programs.items():
            start = time.perf_counter()
            jax.block_until_ready(program(theta))
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in seconds.items()}


def row(name: str, p: int, repeats: int, steps: int) -> list[str]:
    """A row of the table."""
    mechanism, names = MECHANISMS[name]()
    direct, forward = (outputs_of(mechanism, names[:p], adjoint, steps) for adjoint in ("direct", "forward"))
    theta = jnp.zeros(p)
    functions: dict[str, Callable] = {
        "run": direct,
        "direct": lambda theta: with_jacobian(direct, theta),
        "forward": lambda theta: with_jacobian(forward, theta),
        "jvp": lambda theta: jax.jvp(direct, (theta,), (jnp.ones(p),)),
        "differences": lambda theta: central(direct, theta),
    }
    programs, compile_s = {}, {}
    for kind, function in functions.items():
        lowered = jax.jit(function).lower(theta)
        start = time.process_time()
        programs[kind] = lowered.compile()
        compile_s[kind] = time.process_time() - start
    one, other, differences = (
        programs["forward"](theta)[1],
        programs["direct"](theta)[1],
        programs["differences"](theta),
    )
    largest = jnp.max(jnp.abs(other))
    errors = [float(jnp.max(jnp.abs(x - other)) / largest) for x in (one, differences)]
    print(f"{name}, p = {p}: forward less direct {errors[0]:.1e}, differences less direct {errors[1]:.1e}", flush=True)
    found = medians(programs, theta, repeats)
    in_runs = {kind: f"{seconds / found['run']:.1f}" for kind, seconds in found.items()}
    costs = [in_runs["jvp"], in_runs["direct"], in_runs["forward"], f"{1 + 0.6 * p:.1f}", in_runs["differences"]]
    shown = "run", "direct", "forward"
    compiling = ", ".join(f"{compile_s[kind]:.1f}" for kind in shown)
    sizes = ", ".join(str(count(functions[kind], theta)) for kind in shown)
    return [name, str(p), f"{1e3 * found['run']:.1f}", *costs, compiling, sizes]


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mechanisms", nargs="*", help=", ".join(MECHANISMS))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--steps", type=int, default=STEPS, help="of a run; gears and loops have kernels from 5000 on")
    parser.add_argument("--parameters", type=int, nargs="*", default=PARAMETERS)
    given = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    rows = [row(n, p, given.repeats, given.steps) for n in given.mechanisms or MECHANISMS for p in given.parameters]
    print(table(HEAD, rows))


if __name__ == "__main__":
    main()
