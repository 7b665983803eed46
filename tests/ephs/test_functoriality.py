"""A system means what its parts mean together: relations composed along patterns are those of the flattened system."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
import numpy as np
import pytest
from ephs.relations import assert_means_its_parts
from ephs.toys import Leak, Tank, refuse

import jmbs
from jmbs.ephs import ENTROPY, Environment, System, pattern, power_port, state_port
from jmbs.lie import Rn

CHARGE = (Rn(1), "charge")


class Gyrator(eqx.Module):
    ratio: float = 0.7

    @property
    def ports(self):
        return {"a": power_port(*CHARGE), "b": power_port(*CHARGE)}

    def structure(self, x):
        return self.ratio * jnp.asarray([[0.0, 1.0], [-1.0, 0.0]]), None


class Equal(eqx.Module):
    """A constraint: its first two efforts are equal."""

    @property
    def ports(self):
        return {"a": power_port(*CHARGE), "b": power_port(*CHARGE), "c": power_port(*CHARGE)}

    def structure(self, x):
        return None, jnp.asarray([[1.0, -1.0, 0.0]])


class Transformer(eqx.Module):
    output = "out"

    @property
    def ports(self):
        return {"into": power_port(*CHARGE), "out": power_port(*CHARGE)}

    def ratio(self, x):
        return jnp.asarray([[1.6]])


def random_system(random: np.random.Generator, depth: int) -> System:
    """Boxes, some of them systems again, whose ports meet at random junctions, some of which are shown outside."""
    kinds = (Tank, Leak, Gyrator, Equal, Transformer, Environment)
    boxes = {}
    for i in range(random.integers(2, 5)):
        nested = depth > 1 and random.random() < 0.5
        boxes[f"b{i}"] = random_system(random, depth - 1) if nested else kinds[random.integers(len(kinds))]()
    junctions: dict[str, list[str]] = {}
    for name, box in boxes.items():
        for port, declared in box.ports.items():
            kind = declared.quantity.name
            place = f"{kind}{random.integers(2 if kind == ENTROPY else 3)}"
            junctions.setdefault(place, []).append(f"{name}.{port}")
    outer = [name for name in junctions if random.random() < 0.5]
    return System(pattern({name: box.ports for name, box in boxes.items()}, junctions, outer), boxes)


@pytest.mark.parametrize("seed", range(12))
def test_random_systems(seed):
    assert_means_its_parts(random_system(np.random.default_rng(seed), depth=3))


def test_power_does_not_pass_through_a_state_port():
    """Flattened, the leak would discharge a tank of which the box shows the state alone."""
    tank = System(pattern({"tank": Tank().ports}, {"x": "tank.x"}, {"x?": "x"}), {"tank": Tank()})
    boxes = {"box": tank, "leak": Leak(), "env": Environment()}
    ports = {name: box.ports for name, box in boxes.items()}
    found = "the power port leak.x at box.x, a state port of a system, which carries no power"
    build = lambda: System(pattern(ports, {"x": "box.x leak.x", "s": "leak.s env.s"}), boxes)  # noqa: E731
    refuse(build, "junctions/x", found, "a power port of that system")
    nested = System(pattern({"box": tank.ports}, {"x": "box.x"}, {"x": "x"}), {"box": tank})
    again = {"box": nested} | {name: box for name, box in boxes.items() if name != "box"}
    refuse(
        lambda: System(pattern(ports, {"x": "box.x leak.x", "s": "leak.s env.s"}), again), "junctions/x", found, "state"
    )


def test_nothing_is_driven_through_a_state_port():
    tank = System(pattern({"tank": Tank().ports}, {"x": "tank.x"}, {"seen?": "x", "driven": "x"}), {"tank": Tank()})
    model = jmbs.compile(tank)
    assert set(model.dae.plan.drive_slots) == {"driven"}


def test_a_box_that_reads_a_state_may_meet_power():
    class Reader(eqx.Module):
        @property
        def ports(self):
            return {"x": state_port(*CHARGE), "a": power_port(*CHARGE), "b": power_port(*CHARGE)}

        def structure(self, x):
            return x["x"][0] * jnp.asarray([[0.0, 1.0], [-1.0, 0.0]]), None

    reads = System(
        pattern({"r": Reader().ports}, {"x": "r.x", "a": "r.a", "b": "r.b"}, {"x": "x", "a": "a", "b": "b"}),
        {"r": Reader()},
    )
    boxes = {"reads": reads, "tank": Tank(), "other": Tank(), "third": Tank()}
    ports = {name: box.ports for name, box in boxes.items()}
    junctions = {"x": "reads.x tank.x", "a": "reads.a other.x", "b": "reads.b third.x"}
    assert_means_its_parts(System(pattern(ports, junctions), boxes))
