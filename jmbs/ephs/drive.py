"""Drives of the root's outer ports: a given flow (a force) or effort (a prescribed motion, a voltage source)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float


class View(Protocol):
    """What a drive may look at: the state and the effort at any component's port, and declared outputs by name."""

    def state(self, path: str, port: str) -> Array: ...

    def effort(self, path: str, port: str) -> Float[Array, " n"]: ...

    @property
    def output(self) -> Mapping[str, Array]: ...


@runtime_checkable
class FlowDrive(Protocol):
    """Gives the flow into the system at an outer port; its power `e . flow` is counted as supplied."""

    def flow(self, t: Float[Array, ""], view: View) -> Float[Array, " n"]: ...


@runtime_checkable
class EffortDrive(Protocol):
    """Gives the effort at an outer port; the flow it takes is the supplied one."""

    def effort(self, t: Float[Array, ""]) -> Float[Array, " n"]: ...


class ConstantFlow(eqx.Module):
    """A constant flow, one entry per dimension of the port."""

    value: Float[Array, " n"]

    def flow(self, t, view) -> Float[Array, " n"]:
        del t, view
        return self.value


class ConstantEffort(eqx.Module):
    """A constant effort, one entry per dimension of the port."""

    value: Float[Array, " n"]

    def effort(self, t) -> Float[Array, " n"]:
        del t
        return self.value


class FunctionFlow(eqx.Module):
    """A flow given by a function `(t, view)`."""

    function: Callable

    def flow(self, t, view) -> Float[Array, " n"]:
        return jnp.atleast_1d(jnp.asarray(self.function(t, view)))


class FunctionEffort(eqx.Module):
    """An effort given by a differentiable function of time."""

    function: Callable

    def effort(self, t) -> Float[Array, " n"]:
        return jnp.atleast_1d(jnp.asarray(self.function(t)))


class TableFlow(eqx.Module):
    """A flow interpolated linearly in a table; outside the table it is NaN, which stops the run with a message.

    **Arguments:** `times` (n,) increasing, s; `values` (n, dim).
    """

    times: Float[Array, " n"]
    values: Float[Array, "n dim"]

    def flow(self, t, view) -> Float[Array, " dim"]:
        del view
        return interpolate(t, self.times, self.values)


class TableEffort(eqx.Module):
    """An effort interpolated linearly in a table; NaN outside the table.

    **Arguments:** `times` (n,) increasing, s; `values` (n, dim). Its rate jumps at the rows: steps should end there.
    """

    times: Float[Array, " n"]
    values: Float[Array, "n dim"]

    def effort(self, t) -> Float[Array, " dim"]:
        return interpolate(t, self.times, self.values)


class NestedFlow(eqx.Module):
    """The flow `drive` of a system below the root, whose paths begin with `prefix`: it looks things up as there."""

    drive: FlowDrive
    prefix: str = eqx.field(static=True)

    def flow(self, t, view) -> Float[Array, " n"]:
        return self.drive.flow(t, _NestedView(view, self.prefix))


class _NestedView:
    def __init__(self, view: View, prefix: str):
        self._view, self._prefix = view, prefix
        self.own_effort = getattr(view, "own_effort", None)
        self.output = _NestedOutputs(view.output, prefix)

    def state(self, path: str, port: str) -> Array:
        return self._view.state(self._prefix + path, port)

    def effort(self, path: str, port: str) -> Float[Array, " n"]:
        return self._view.effort(self._prefix + path, port)


class _NestedOutputs(Mapping[str, Array]):
    """Outputs of the components whose paths begin with a prefix, by what follows it."""

    def __init__(self, outputs: Mapping[str, Array], prefix: str):
        self._outputs, self._prefix = outputs, prefix

    def __getitem__(self, name: str) -> Array:
        return self._outputs[self._prefix + name]

    def __iter__(self) -> Iterator[str]:
        return (name.removeprefix(self._prefix) for name in self._outputs if name.startswith(self._prefix))

    def __len__(self) -> int:
        return sum(1 for _ in self)


def drive_below(drive: Any, prefix: str) -> Any:
    """A drive of a system whose paths begin with `prefix`, seen from the root; efforts look nothing up."""
    return NestedFlow(drive, prefix) if prefix and hasattr(drive, "flow") else drive


def interpolate(t, times: Float[Array, " n"], values: Float[Array, "n dim"]) -> Float[Array, " dim"]:
    """Linear interpolation; NaN more than a rounding error outside the table."""
    slack = 1e-9 * (times[-1] - times[0])
    inside = (t >= times[0] - slack) & (t <= times[-1] + slack)
    column = lambda v: jnp.interp(t, times, v)  # noqa: E731
    return jnp.where(inside, jnp.stack([column(values[:, i]) for i in range(values.shape[1])]), jnp.nan)
