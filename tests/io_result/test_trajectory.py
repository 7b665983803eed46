"""A trajectory's dataset has the promised layout, its quaternions are continuous, its status is legible."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from io_result.synthetic import LABELS, RATE, by_name, failed, pair_trajectory, without_audit

from jmbs.errors import ModelError
from jmbs.simulation.status import STATUS_NAMES, Status, is_successful, members, message, status_name
from jmbs.simulation.trajectory import continuous_quaternions


def test_dataset_layout():
    dataset = pair_trajectory().to_xarray()
    expected = {
        "position": ("time", "body", "xyz"),
        "quaternion": ("time", "body", "wxyz"),
        "angular_velocity": ("time", "body", "xyz"),
        "velocity": ("time", "body", "xyz"),
        "reaction": ("time", "joint", "wrench"),
        "constraint_position": ("time", "joint"),
        "constraint_velocity": ("time", "joint"),
        "q_rail": ("time", "q_rail_coordinate"),
        "v_axle": ("time", "v_axle_coordinate"),
        "temperature_bearing": ("time",),
        "state_motor.current": ("time",),
        "state_field": ("time", "state_field_axis0"),
    }
    expected |= {field: ("time",) for field in ("kinetic", "potential", "total", "supplied", "dissipated")}
    expected |= {field: ("time",) for field in ("entropy_produced", "exergy_destroyed", "first_law_residual")}
    for name, dims in expected.items():
        assert dataset[name].dims == dims, name
    for name, variable in dataset.data_vars.items():
        assert variable.attrs["units"], name
        assert variable.attrs["long_name"], name
    assert dataset.attrs["result_schema"] == "jmbs-result/1"
    for name in ("jmbs_version", "config", "method", "status", "steps", "accepted", "rejected", "failure_time"):
        assert name in dataset.attrs, name


def test_labels_pick_the_right_array():
    # Also behind jit the dataset keeps the order of the config and the right data.
    trajectory = jax.jit(pair_trajectory)()
    dataset = trajectory.to_xarray()
    assert tuple(dataset.body.values) == LABELS.bodies
    for body in LABELS.bodies:
        np.testing.assert_array_equal(dataset.position.sel(body=body), trajectory.position[body])
    np.testing.assert_array_equal(
        dataset.reaction.sel(joint="rail", wrench="force_z"), trajectory.reaction["rail"][:, 5]
    )
    np.testing.assert_array_equal(dataset.q_axle.sel(q_axle_coordinate="angle"), trajectory.q["axle"][:, 0])
    assert dataset.q_axle_coordinate.attrs["units"] == "rad, m"
    assert dataset["state_motor.current"].attrs["units"] == "A"


def test_audit_off_leaves_fields_out():
    dataset = without_audit(pair_trajectory()).to_xarray()
    assert {"reaction", "constraint_position", "total", "entropy_produced"}.isdisjoint(dataset.variables)
    assert "position" in dataset and "q_rail" in dataset


def test_batch_gets_a_member_dimension():
    amplitudes = jnp.array([0.1, 0.2, 0.3])
    batch = jax.vmap(pair_trajectory)(amplitudes)
    dataset = batch.to_xarray()
    assert dataset.position.dims == ("member", "time", "body", "xyz")
    assert dataset.time.dims == ("time",) and "member_time" not in dataset
    for member, amplitude in enumerate(amplitudes):
        alone = pair_trajectory(amplitude).to_xarray()
        np.testing.assert_allclose(dataset.isel(member=member).total, alone.total, rtol=1e-13)
    assert dataset.status.dims == ("member",) and dataset.steps.dims == ("member",)


def test_batch_whose_members_save_at_different_times():
    batch = jax.vmap(lambda t1: pair_trajectory(t1=t1))(jnp.array([1.0, 2.0]))
    dataset = batch.to_xarray()
    np.testing.assert_array_equal(dataset.member_time.isel(time=-1), [1.0, 2.0])


def test_failed_member_does_not_spoil_the_times():
    good, bad = pair_trajectory(), failed(pair_trajectory(), 3.0)
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), good, bad)
    dataset = batch.to_xarray()
    np.testing.assert_array_equal(dataset.time, good.ts)
    assert dataset.attrs["status"] == "1 of 2 members failed"
    assert str(dataset.status.values[1]) == message(Status.not_finite)


def test_refuses_what_it_cannot_label():
    with pytest.raises(ModelError, match="traced"):
        jax.jit(lambda: pair_trajectory().to_xarray())()
    twice = jax.vmap(jax.vmap(pair_trajectory))(jnp.ones((2, 2)))
    with pytest.raises(ModelError, match="batch"):
        twice.to_xarray()


def test_joint_named_like_the_coordinates_of_another():
    pair = pair_trajectory()
    rail, axle = LABELS.joint_coordinates
    coordinates = (rail, axle._replace(joint="rail_coordinate"))
    labels = replace(LABELS, joints=("rail", "rail_coordinate"), joint_coordinates=coordinates)
    by_joint = {
        field: by_name({"rail": getattr(pair, field)["rail"], "rail_coordinate": getattr(pair, field)["axle"]})
        for field in ("q", "v", "reaction", "constraint_position", "constraint_velocity")
    }
    dataset = replace(pair, labels=labels, **by_joint).to_xarray()
    np.testing.assert_array_equal(dataset.q_rail[:, 0], pair.q["rail"][:, 0])
    np.testing.assert_array_equal(dataset["q_rail_coordinate"], pair.q["axle"])


def test_continuous_quaternions_undo_sign_flips():
    key_signs, key_angles = jax.random.split(jax.random.key(0))
    angles = jnp.cumsum(jax.random.uniform(key_angles, (200,), minval=-0.5, maxval=1.5))
    smooth = jnp.stack([jnp.cos(angles / 2), jnp.sin(angles / 2), 0 * angles, 0 * angles], axis=-1)
    signs = jax.random.rademacher(key_signs, (200,), dtype=smooth.dtype).at[0].set(1.0)
    np.testing.assert_array_equal(jax.jit(continuous_quaternions)(signs[:, None] * smooth), smooth)


def test_continuous_quaternions_survive_nan_and_are_differentiable():
    q = pair_trajectory().quaternion["rotor"]
    flipped = -q.at[5:].multiply(-1.0)
    np.testing.assert_array_equal(continuous_quaternions(flipped.at[50:].set(jnp.nan))[:50], -q[:50])
    gradient = jax.grad(lambda q: jnp.sum(continuous_quaternions(q)))(flipped)
    assert np.all(np.abs(gradient) == 1.0)


def test_rotor_turns_through_the_whole_circle():
    # A check of the factory: without continuity the half angle would jump.
    q = pair_trajectory().quaternion["rotor"]
    half_angle = np.unwrap(np.arctan2(q[:, 3], q[:, 0]))
    np.testing.assert_allclose(half_angle, RATE * pair_trajectory().ts / 2, atol=1e-12)
    assert np.max(np.abs(np.diff(q, axis=0))) < 0.1


@pytest.mark.parametrize("name", STATUS_NAMES)
def test_every_status_has_its_own_words(name):
    status = getattr(Status, name)
    assert status_name(status) == name
    assert message(status).strip()
    assert bool(is_successful(status)) == (name in ("successful", "ended_at_event"))


def test_status_names_are_complete_and_distinct():
    assert len(STATUS_NAMES) == len(Status)
    assert len({message(getattr(Status, name)) for name in STATUS_NAMES}) == len(Status)


def test_status_under_vmap():
    batch = jax.jit(jax.vmap(lambda x: Status.where(x > 0, Status.successful, Status.not_finite)))(
        jnp.array([1.0, -1.0])
    )
    assert [status_name(single) for single in members(batch)] == ["successful", "not_finite"]
    np.testing.assert_array_equal(is_successful(batch), [True, False])
    with pytest.raises(ModelError, match="batch"):
        message(batch)
