"""Laws of users' components hold wherever these have meaning: tried on wide samples, or on a declared domain."""

from __future__ import annotations

from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from ephs.toys import Leak, Tank, refuse, system

from jmbs.ephs import ENTROPY, Environment, flatten, is_lawful, power_port, state_port, validate, validate_component
from jmbs.library.mechanics.friction import TemperatureDependentFriction, ViscousFriction
from jmbs.library.mechanics.joint import HolonomicConstraint, relative_momentum
from jmbs.library.redundant import examples, redundant_system
from jmbs.lie import AbstractJointMotion, Rn, pose

CHARGE, HEAT = power_port(Rn(1), "charge"), power_port(Rn(1), ENTROPY)


class Reversible(eqx.Module):
    """A charge and two entropies, coupled as given."""

    J: Any
    C: Any = None

    @property
    def ports(self):
        return {"q": CHARGE, "a": HEAT, "b": HEAT}

    def structure(self, x):
        del x
        return self.J, self.C


class HeatTransformer(eqx.Module):
    """The temperature difference of one port from those of two others."""

    A: Any
    output: ClassVar[str] = "b"

    @property
    def ports(self):
        return {"q": CHARGE, "a": HEAT, "b": HEAT}

    def ratio(self, x):
        del x
        return self.A


class Drag(eqx.Module):
    """A force `D(x, v, theta) v` that heats `s`; `domain` where the component has meaning."""

    D: Any
    limits: tuple[tuple[str, Any], ...] = eqx.field(static=True)
    thermometer: Any

    def __init__(self, D, domain=None, thermometer=lambda e: e.temperature("s")):
        self.D, self.thermometer = D, thermometer
        self.limits = tuple((domain or {}).items())

    @property
    def domain(self):
        return dict(self.limits)

    @property
    def ports(self):
        return {"v": state_port(Rn(1), "volume"), "p": power_port(Rn(1), "momentum"), "s": HEAT}

    def onsager(self, x, e):
        v, theta = e["p"][0], self.thermometer(e)
        return self.D(x["v"][0], v, theta) * jnp.array([[theta, -v], [-v, v * v / theta]])


# -- reversible components --------------------------------------------------------------------------------------------

THERMAL = np.array([0.0, 1.0, 1.0])


def skew(seed: int) -> np.ndarray:
    J = np.random.default_rng(seed).normal(size=(3, 3))
    return J - J.T


@pytest.mark.parametrize("seed", range(3))
def test_reversible_components_conserve_entropy(seed: int):
    """A skew `J` does if it vanishes on equal changes of all temperatures; any other one makes entropy, and energy."""
    J = skew(seed)
    keeps = np.eye(3) - np.outer(THERMAL, THERMAL) / 2
    validate_component("pump", Reversible(jnp.asarray(keeps @ J @ keeps)))
    refuse(lambda: validate_component("pump", Reversible(jnp.asarray(J))), "pump", "makes entropy", "sum to zero")


def test_two_entropies_coupled_by_a_skew_matrix_are_refused_with_the_size():
    J = jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, 0.02], [0.0, -0.02, 0.0]])
    refuse(lambda: validate_component("pump", Reversible(J)), "pump", "at a, b: 1 of", "entropy is conserved")


def test_rows_that_make_entropy_are_refused():
    contact, wrong = jnp.array([[0.0, 1.0, -1.0]]), jnp.array([[0.0, 1.0, 1.0]])
    validate_component("contact", Reversible(None, contact))
    refuse(lambda: validate_component("contact", Reversible(None, wrong)), "contact", "rows of C", "sum to zero")


def test_entropy_counts_only_where_the_rows_are_met():
    """Two entropies coupled by a skew `J`, at temperatures that a row keeps equal: nothing is made."""
    J = jnp.array([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
    validate_component("pump", Reversible(J, jnp.array([[0.0, 1.0, -1.0]])))


def test_transformers_conserve_entropy():
    for ratio in ([[0.0, 1.0]], [[0.3, 1.0]]):
        validate_component("transformer", HeatTransformer(jnp.array(ratio)))
    wrong = HeatTransformer(jnp.array([[0.0, 2.0]]))
    refuse(lambda: validate_component("transformer", wrong), "transformer", "makes entropy", "entropy is conserved")


# -- irreversible components ------------------------------------------------------------------------------------------

FEEDS = "a negative eigenvalue"
UNLAWFUL = {
    "feeds at high speeds": (lambda x, v, theta: 1 - v**2 / 1e4, FEEDS, {"p.e": (-50.0, 50.0)}),
    "feeds at low speeds": (lambda x, v, theta: v**2 - 1e-4, FEEDS, {"p.e": (0.1, 10.0)}),
    "feeds when hot": (lambda x, v, theta: 600.0 - theta, FEEDS, {"s.theta": (250.0, 400.0)}),
    "feeds when cold": (lambda x, v, theta: theta - 100.0, FEEDS, {"s.theta": (250.0, 400.0)}),
    "feeds at small volumes": (lambda x, v, theta: x - 0.2, FEEDS, {"v.x": (1.0, 2.0)}),
    "root of the volume": (lambda x, v, theta: jnp.sqrt(x), "M with entries that are infinite or NaN", {"v.x": (0, 1)}),
    "logarithm of speed": (lambda x, v, theta: jnp.log(v) + 10.0, "infinite or NaN", {"p.e": (1e-3, 1e3)}),
}


@pytest.mark.parametrize("D, found, domain", UNLAWFUL.values(), ids=UNLAWFUL)
def test_irreversible_components_are_lawful_where_they_have_meaning(D, found: str, domain: dict[str, Any]):
    """Refused on wide samples, with the place; accepted on their own domain."""
    wanted = "domain" if "NaN" in found else "second law"
    refuse(lambda: validate_component("drag", Drag(D)), "drag", found, wanted)
    refuse(lambda: validate_component("drag", Drag(D)), "drag", "s.theta = ", wanted)
    validate_component("drag", Drag(D, domain))


def test_a_temperature_of_the_environment_that_is_written_down_is_refused():
    assumed = Drag(lambda x, v, theta: 1.0, {"s.theta": (200.0, 400.0)}, lambda e: 300.0 + e["s"][0])
    refuse(lambda: validate_component("drag", assumed), "drag", "does not conserve energy", "= 0")


def test_friction_that_acts_along_one_direction_only_is_lawful():
    """Its matrix is singular, so that some entries are nothing but rounding."""

    class Across(eqx.Module):
        @property
        def ports(self):
            return {"p": power_port(Rn(3), "momentum"), "s": HEAT}

        def onsager(self, x, e):
            u, theta = e["p"], e.temperature("s")
            across = jnp.eye(3) - jnp.outer(u, u) / jnp.maximum(u @ u, 1e-30)
            D = across + jnp.diag(jnp.array([0.0, 0.0, 1e-3]))
            heat = jnp.reshape(u @ D @ u / theta, (1, 1))
            return jnp.block([[theta * D, -(D @ u)[:, None]], [-(u @ D)[None, :], heat]])

    validate_component("across", Across())


@pytest.mark.parametrize(
    "domain, path, found",
    [
        ({"volume.x": (0.0, 1.0)}, "drag/domain", "'volume.x'"),
        ({"v.e": (0.0, 1.0)}, "drag/domain", "'v.e'"),
        ({"s.e": (0.0, 1.0)}, "drag/domain", "'s.e'"),
        ({"v.x": (1.0, 0.0)}, "drag/domain/v.x", "(1.0, 0.0)"),
        ({"v.x": (0.0, float("inf"))}, "drag/domain/v.x", "inf"),
        ({"v.x": 3.0}, "drag/domain/v.x", "3.0"),
        ({"v.x": ([0.0, 0.0], [1.0, 1.0])}, "drag/domain/v.x", "[1.0, 1.0]"),
        ({"s.theta": (-3.0, 300.0)}, "drag/domain/s.theta", "-3.0"),
    ],
)
def test_a_domain_that_says_nothing_is_refused(domain: dict[str, Any], path: str, found: str):
    refuse(lambda: validate_component("drag", Drag(lambda x, v, theta: 1.0, domain)), path, found, "")


def test_a_domain_is_sampled_to_its_ends_and_not_beyond():
    seen = []

    def D(x, v, theta):
        jax.debug.callback(lambda *values: seen.append(values), x, v, theta, ordered=True)
        return 1.0

    validate_component("drag", Drag(D, {"v.x": (2.0, 200.0), "p.e": (-1.0, 1e4), "s.theta": (280.0, 281.0)}))
    x, v, theta = np.array(seen).T
    assert np.all((2 <= x) & (x <= 200) & (v >= -1) & (v <= 1e4) & (theta >= 280) & (theta <= 281))
    assert x.min() < 4 and x.max() > 100 and v.max() > 1e3 and np.any(v < 0)
    assert np.any(np.abs(v) < 1e-1), "decades, down to small values"


# -- components of jmbs that hold a user's function -------------------------------------------------------------------


class Reversed(ViscousFriction):
    """A user's friction law inside a component of jmbs."""

    def onsager(self, x, e):
        return -ViscousFriction.onsager(self, x, e)


class Track(AbstractJointMotion):
    """A user's joint with a domain: a slot that ends."""

    name = "track"
    group = Rn(1)
    coordinate_names, coordinate_units = ("travel",), ("m",)
    velocity_names, velocity_units = ("rate",), ("m/s",)
    domain: ClassVar[tuple[float, float]] = (0.1, 0.9)

    def inclusion(self, q):
        return pose(jnp.eye(3, dtype=q.dtype), jnp.array([q[0], jnp.sqrt(1 - q[0] ** 2), 0.0]))


def boxes(**data):
    return redundant_system(np.eye(2), **data).boxes


def test_the_declaration_falls_away_for_every_users_function():
    ours, scale = boxes(G=[[0, 1], [-1, 0]], A=[1, -1], B=[1, 0], tau_d=[1.0, 2.0]), jnp.eye(2)
    theirs = boxes(
        Z=lambda zeta: scale,
        G=lambda gamma: jnp.array([[0, 1.0], [-1.0, 0]]),
        A=lambda zeta: jnp.array([1.0, -1.0]),
        B=lambda zeta: jnp.array([1.0, 0.0]),
        V=lambda zeta: zeta @ zeta,
        c=lambda zeta: zeta[0] - zeta[1],
        tau_d=lambda zeta, w: w,
    )
    assert [name for name, box in theirs.items() if is_lawful(box)] == ["ke"]
    assert all(is_lawful(box) for name, box in ours.items() if name != "env")
    assert all(is_lawful(box) for name, box in examples.gimbal_gyroscope().boxes.items() if name != "env")
    momentum = relative_momentum(Rn(1))
    warm = [
        TemperatureDependentFriction(kind(jnp.ones(1), momentum), jnp.array(0.1), jnp.array(300.0))
        for kind in (ViscousFriction, Reversed)
    ]
    assert [is_lawful(friction) for friction in warm] == [True, False]
    refuse(lambda: validate_component("mf", warm[1]), "mf", FEEDS, "second law")
    assert not is_lawful(HolonomicConstraint(Track()))
    validate_component("hc", HolonomicConstraint(Track()))


def test_damping_that_feeds_power_in_at_high_speeds_is_refused():
    box = boxes(tau_d=lambda zeta, w: w * (1 - 0.02 * w @ w))["res"]
    refuse(lambda: validate_component("res", box), "res", FEEDS, "second law")


def test_a_place_near_which_functions_have_meaning_is_kept_to():
    """`near` of a system in redundant coordinates is the domain of its boxes."""
    data = {"Z": lambda zeta: jnp.diag(jnp.sqrt(zeta - 0.5)), "tau_d": lambda zeta, w: w * jnp.sqrt(zeta - 0.5)}
    for name, box in boxes(**data, near=[1.0, 2.0]).items():
        if name != "env":
            validate_component(name, box)


def test_what_is_traced_has_no_numbers_to_try():
    def conducted(conductance):
        boxes = {"tank": Tank(), "leak": Leak(conductance), "env": Environment()}
        validate(flatten(system(boxes, {"x": "tank.x leak.x", "s": "leak.s env.s"})))
        return conductance

    assert jax.eval_shape(conducted, 1.0).shape == ()
    assert conducted(jnp.array(0.5)) == 0.5
    refuse(lambda: conducted(jnp.array(-0.5)), "leak", FEEDS, "second law")
