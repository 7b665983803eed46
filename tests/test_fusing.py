"""Runs are fused calls where that is said, or on a CUDA device, and cost nothing elsewhere."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fused.emulated import emulated, needs_compiler

import jmbs
from jmbs.fusing import VARIABLE, fused, fused_calls, fuses, on_cpu
from jmbs.jaxext import runs_on_cpu


def names(function, *args) -> list[str]:
    return [eqn.primitive.name for eqn in jax.make_jaxpr(function)(*args).eqns]


def test_other_platforms_have_none():
    assert not fuses()
    assert names(lambda x: fused(jnp.sin, x), 1.0) == ["sin"]


def test_somebody_may_say_so(monkeypatch):
    with fused_calls():
        assert fuses()
        assert names(lambda x: fused(jnp.sin, x), 1.0) == ["fused_call"]
        with fused_calls(False):
            assert not fuses()
    monkeypatch.setenv(VARIABLE, "1")
    assert fuses()
    monkeypatch.setenv(VARIABLE, "0")
    assert not fuses()


def test_versions_of_jax_that_were_not_tried_have_none(monkeypatch):
    monkeypatch.setattr(jax, "__version__", "0.99.0")
    with fused_calls():
        assert not fuses()


def test_outside_of_jit_functions_look_at_numbers():
    with fused_calls():
        assert fused(lambda x: float(x), jnp.ones(())) == 1.0


@pytest.fixture
def platforms():
    """Says JAX's setting, too late to have an effect, and puts it back."""
    before = jax.config.values["jax_platforms"]
    yield lambda names: jax.config.update("jax_platforms", names)
    jax.config.update("jax_platforms", before)


def test_few_members_go_to_the_cpu_unless_somebody_says_otherwise(monkeypatch, platforms):
    def inside() -> tuple:
        with on_cpu():
            assert runs_on_cpu() == (not fuses())
            return jax.config.jax_default_device, fuses()

    assert inside() == (None, False)
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    with fused_calls():
        platforms("cuda")
        assert inside() == (None, True)
        platforms(None)
        assert inside() == (jax.devices()[0], False)
        with jax.default_device(jax.devices()[0]):
            with on_cpu():
                assert fuses()


@pytest.fixture(scope="module")
def model():
    """A pendulum."""
    mechanism = jmbs.Mechanism("pendulum")
    mechanism.add_body("rod", mass=1.0, inertia=[0.1, 0.1, 0.1])
    mechanism.add_joint("hinge", "revolute", "ground", "rod", child_frame={"position": [0, 0, 0.5]}, axis=[0, 1, 0])
    return jmbs.compile(mechanism)


@pytest.fixture(scope="module")
def run(model):
    """A run of a pendulum by its mass and gravity."""
    start = model.initial_state()

    def run(member, ts, audit=False, **control):
        gravity = 9.81 * member[1] * jnp.array([0.6, 0, -0.8])
        changed = model.with_parameters({"rod/mass": member[0], "gravity": gravity})
        control = control or {"solver": "rk4", "dt": 1e-2}
        return jmbs.simulate(changed, start, ts=ts, t1=ts[-1], audit=audit, throw=False, **control)

    return run


@pytest.fixture(scope="module")
def final(run):
    """Its final angle and rate."""

    def final(member, **control):
        trajectory = run(member, np.array([0.0, 0.05]), **control)
        return trajectory.q["hinge"][-1, 0], trajectory.v["hinge"][-1, 0]

    return final


MEMBERS = jnp.array([[1.0, 0.3], [2.0, 0.5], [1.5, -0.2]])


def loss(final):
    return lambda members: sum((x**2).sum() for x in jmbs.map_batch(lambda member: final(member), members))


def test_a_batch_of_runs_is_one_call(final):
    with fused_calls():
        program = jax.make_jaxpr(lambda members: jmbs.map_batch(final, members))(MEMBERS)
    calls = [eqn.params["members"] for eqn in program.eqns if eqn.primitive.name == "fused_call"]
    assert [members.sizes for members in calls] == [(3,)]


MANY_TIMES = np.linspace(0.0, 0.4, 401)
ADAPTIVE = {"solver": "tsit5", "tolerance": 1e-8}


@pytest.fixture(params=[{}, ADAPTIVE, ADAPTIVE | {"adjoint": "forward"}], ids=["fixed", "adaptive", "forward"])
def observed(run, request):
    """A batch of runs with all that is observed, and the account, at many times."""

    def observed(members):
        trajectories = jmbs.map_batch(lambda member: run(member, MANY_TIMES, audit=True, **request.param), members)
        return jax.tree.leaves(trajectories)

    return observed


def test_many_saved_times_are_calls_of_their_own(observed):
    """As one kernel they would be written out, which compilers take minutes for."""
    with fused_calls():
        program = jax.make_jaxpr(observed)(MEMBERS)
    calls = [eqn.params["members"] for eqn in program.eqns if eqn.primitive.name == "fused_call"]
    # The steps, what is observed and the first instant; of fixed steps one more, of what all members share.
    assert [members.sizes for members in calls if members.sizes] == [(3,), (3, len(MANY_TIMES)), (3,)]


@pytest.mark.slow
@needs_compiler
def test_and_are_the_same_in_kernels(observed, monkeypatch):
    wanted, found = jax.jit(observed)(MEMBERS), emulated(monkeypatch, observed, MEMBERS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-10), found, wanted)


@pytest.mark.slow
@needs_compiler
def test_it_is_the_same_in_kernels(final, monkeypatch):
    """The run and its gradient, each kernel thread by thread on this machine."""
    wanted = jax.jit(jax.value_and_grad(loss(final)))(MEMBERS)
    found = emulated(monkeypatch, jax.value_and_grad(loss(final)), MEMBERS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13), found, wanted)


@pytest.mark.slow
@needs_compiler
def test_each_member_takes_its_own_adaptive_steps(final, monkeypatch):
    def batch(members):
        return jax.vmap(lambda member: final(member, solver="tsit5", tolerance=1e-8))(members)

    found, wanted = emulated(monkeypatch, batch, MEMBERS), jax.jit(batch)(MEMBERS)
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.slow
def test_and_in_the_plain_program(final):
    wanted = jax.jit(jax.value_and_grad(loss(final)))(MEMBERS)
    with fused_calls():
        found = jax.jit(jax.value_and_grad(lambda members: loss(final)(members)))(MEMBERS)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-11, atol=1e-14), found, wanted)


def test_a_batch_of_steps_is_one_call(model):
    states = jax.vmap(lambda q: model.with_parameters({"initial/hinge/q": q}).initial_state())(MEMBERS[:, :1])
    with fused_calls():
        program = jax.make_jaxpr(jax.vmap(lambda state: model.step(state, {}, dt=0.01, steps=2)))(states)
    (step,) = program.eqns
    assert [eqn.primitive.name for eqn in step.params["jaxpr"].eqns] == ["fused_call"]
