"""Exchange with PyTorch: the same numbers, and the same gradients as JAX's."""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from learning.environments import pendulum

import jmbs
from jmbs.learning import from_torch, to_torch, torch_function


def test_without_torch_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(jmbs.ModelError, match=r"no package torch, wanted it installed: pip install 'jmbs\[torch\]'"):
        torch_function(lambda x: x)


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "bool"])
def test_arrays_come_back_as_they_were(torch, dtype):
    array = jnp.arange(6).reshape(2, 3).astype(dtype)
    tensor = to_torch(array)
    assert tensor.dtype == getattr(torch, dtype) and np.array_equal(tensor.numpy(), array)
    transposed = from_torch(tensor.T)
    assert transposed.dtype == array.dtype and np.array_equal(transposed, array.T)


def test_arrays_do_not_change_with_their_tensors(torch):
    tensor = torch.ones(3, dtype=torch.float64, requires_grad=True)
    array = from_torch(tensor)
    with torch.no_grad():
        tensor += 1
    assert np.array_equal(array, np.ones(3))


def test_refusals(torch):
    with pytest.raises(jmbs.ModelError, match="tensor: found a list"):
        from_torch([1.0])
    with jax.enable_x64(False), pytest.raises(jmbs.ModelError, match="64-bit mode is off"):
        from_torch(torch.ones(1, dtype=torch.float64))


def spring(stretch, stiffness, number):
    """An energy, and the number of a member."""
    return stiffness * jnp.log1p(stretch**2), number + 1


def test_gradients_pass_gradcheck_and_are_jax_s(torch):
    function = torch_function(jax.vmap(spring))
    given = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([0.5, -1.0], [1.0, 2.0])]
    number = torch.tensor([3, 4])
    assert torch.autograd.gradcheck(lambda *x: function(*x, number)[0], given)
    energy, after = function(*given, number)
    assert torch.equal(after, number + 1) and not after.requires_grad and energy.dtype == torch.float64
    (energy**2).sum().backward()
    loss = lambda *x: jnp.sum(jax.vmap(spring)(*x, jnp.array([3, 4]))[0] ** 2)  # noqa: E731
    for found, expected in zip(given, jax.grad(loss, (0, 1))(*map(from_torch, given)), strict=True):
        assert np.allclose(found.grad, expected, rtol=1e-12)
    with torch.no_grad():
        assert torch.equal(function(*given, number)[0], energy)


@pytest.mark.slow
def test_gradients_go_through_steps_of_a_model(torch):
    model = pendulum()
    state = model.initial_state()

    def angle(mass, torque):
        changed = model.with_parameters({"rod/mass": mass})
        return changed.step(changed.step(state, {"hinge/actuation": torque}, 0.05), None, 0.05).q["hinge"][0]

    given = [torch.tensor(x, dtype=torch.float64, requires_grad=True) for x in ([1.0, 2.0], [0.5, -1.0])]
    assert torch.autograd.gradcheck(torch_function(jax.vmap(angle)), given)


def test_float32_stays_float32_and_learns(torch):
    function = torch_function(lambda x: jnp.tanh(x) ** 2)
    layer = torch.nn.Linear(3, 2)
    optimiser = torch.optim.SGD(layer.parameters(), lr=0.02)
    inputs, losses = torch.ones(4, 3), []
    for _ in range(3):
        optimiser.zero_grad()
        loss = function(layer(inputs)).sum()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert loss.dtype == torch.float32 and layer.weight.grad.dtype == torch.float32
    assert losses[2] < losses[1] < losses[0]
