"""Every composite that jmbs ships means what its boxes mean together: as relations, nested and flattened are equal."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
import zoo
from ephs.relations import assert_means_its_parts

import jmbs
import jmbs.library
from jmbs.ephs import System
from jmbs.library.electric import series_rlc
from jmbs.library.mechanics.body import rigid_body
from jmbs.library.mechanics.elements import LineOfAction, spring_damper
from jmbs.library.mechanics.friction import viscous_friction
from jmbs.library.mechanics.joint import JointPotential, Offset, joint, relative_momentum
from jmbs.library.mechanics.reduced_body import reduced_body
from jmbs.library.mechanics.two_bodies import two_body_system
from jmbs.library.mechanics.velocity_constraints import Roller, rolling
from jmbs.library.motor import dc_motor
from jmbs.library.oscillator import damped_oscillator, oscillator
from jmbs.library.redundant import examples, point_masses, redundant_system, rigid_examples
from jmbs.library.thermal import convection
from jmbs.lie import SE3, Revolute, SO3xR3

MASS, GRAVITY = jnp.asarray(2.5), jnp.array([0.5, -1.0, -9.0])
INERTIA = jnp.array([[0.4, 0.03, -0.02], [0.03, 0.5, 0.01], [-0.02, 0.01, 0.35]])
POINT, OTHER_POINT = jnp.array([0.1, -0.2, 0.3]), jnp.array([-0.3, 0.4, 0.1])


def body(group=SE3) -> System:
    return rigid_body(MASS, INERTIA, GRAVITY, group)


def hinge(group=SE3) -> System:
    motion = Revolute(jnp.array([0.0, 0.0, 1.0]))
    offsets = [Offset(point, jnp.array([0.5, 0.5, -0.5, 0.5]), group) for point in (POINT, OTHER_POINT)]
    spring = JointPotential(jnp.array([3.0]), jnp.array([0.2]), motion.group)
    return joint(motion, *offsets, spring, viscous_friction([0.3], relative_momentum(motion.group)))


def strut(heats_environment: bool = True) -> System:
    line = LineOfAction(POINT, OTHER_POINT, (SE3, SO3xR3))
    return spring_damper(line, jnp.asarray(40.0), jnp.asarray(0.5), 0.7, heats_environment)


def rod(group=SE3) -> System:
    iota = jnp.eye(6)[:, jnp.array([0, 1, 3, 4, 5])]
    return reduced_body(MASS, jnp.asarray(0.2), iota, GRAVITY, group)


def disk() -> Roller:
    return Roller(jnp.asarray(0.3), jnp.array([0.0, 1.0, 0.0]), jnp.array([0.1, 0.2, 1.0]), POINT)


def weights() -> System:
    return point_masses([1.0, 2.0], dimension=2, c=lambda zeta: zeta[:2] @ zeta[:2] - 1.0, near=[1.0, 0.0, 0.3, 0.4])


COMPOSITES: dict[Callable[..., System], Any] = {
    oscillator: lambda: oscillator(2.0, 50.0),
    damped_oscillator: lambda: damped_oscillator(2.0, 50.0, 1.5),
    series_rlc: lambda: series_rlc(2.0, 0.1, 1e-3),
    dc_motor: lambda: dc_motor(1.0, 0.1, 0.05, rotor_inertia=0.01, heats_environment=False),
    convection: lambda: convection(0.5),
    rigid_body: body,
    reduced_body: rod,
    joint: hinge,
    spring_damper: strut,
    two_body_system: lambda: two_body_system(body(SO3xR3), body(SO3xR3), hinge(SO3xR3)),
    rolling: lambda: rolling(disk(), moving=True),
    point_masses: weights,
    redundant_system: lambda: examples.differential_drive(),
    examples.differential_drive: examples.differential_drive,
    examples.gimbal_gyroscope: examples.gimbal_gyroscope,
    examples.crank: examples.crank,
    examples.rod_with_slider: examples.rod_with_slider,
    examples.slider_crank: lambda: examples.slider_crank(examples.crank(), examples.rod_with_slider()),
    examples.truck_with_trailers: lambda: examples.truck_with_trailers(2),
}
"""Functions of `jmbs.library` that return a `System`, with the arguments they are tried at."""
BY_MECHANISMS = {"body_system", "joint_system", "element_system", "build"}
"""Those that take a `Mechanism`: all of them are called for those below."""
MECHANISMS: dict[str, Callable[[], jmbs.Mechanism]] = {
    "differential_drive_mechanism": rigid_examples.differential_drive_mechanism,
    "gyroscope_mechanism": lambda: rigid_examples.gyroscope_mechanism(lambda t: 0.1 * t),
    "slider_crank_mechanism": rigid_examples.slider_crank_mechanism,
    "mixed_slider_crank": rigid_examples.mixed_slider_crank,
    **zoo.MECHANISMS,
}
CONFIGS = sorted((Path(__file__).parents[2] / "configs").glob("*.yaml"))
QUICK = ("damped_oscillator", "rlc", "pendulum", "free_rigid_body")


def library_functions() -> Iterator[Callable[..., Any]]:
    """All public functions of `jmbs.library`, by where they are defined."""
    for found in pkgutil.walk_packages(jmbs.library.__path__, "jmbs.library."):
        module = importlib.import_module(found.name)
        for name, function in inspect.getmembers(module, inspect.isfunction):
            if function.__module__ == found.name and not name.startswith("_"):
                yield function


def test_every_composite_of_the_library_is_looked_at():
    composites = {f for f in library_functions() if f.__annotations__.get("return") == "System"}
    assert {f.__name__ for f in composites - set(COMPOSITES)} == BY_MECHANISMS
    mechanisms = {f.__name__ for f in library_functions() if f.__annotations__.get("return") == "Mechanism"}
    assert mechanisms <= set(MECHANISMS)


@pytest.mark.parametrize("build", COMPOSITES.values(), ids=[function.__name__ for function in COMPOSITES])
def test_composites(build):
    assert_means_its_parts(build())


@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem, marks=[pytest.mark.slow] * (p.stem not in QUICK)) for p in CONFIGS]
)
def test_configs(path):
    assert_means_its_parts(jmbs.load(path).system())


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_mechanisms(name):
    assert_means_its_parts(MECHANISMS[name]().system())
