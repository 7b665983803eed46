"""Looking up states and efforts by component path and port."""

from __future__ import annotations

from collections.abc import Mapping

from jaxtyping import Array, Float

from jmbs.ephs.plan import Plan


class StateView:
    """States and efforts by component path and port, `output` by `<path>/<name>`; what drives look things up in."""

    def __init__(self, plan: Plan, x: tuple[Array, ...], e: Array, output: Mapping[str, Array] | None = None):
        self._plan, self._x, self._e = plan, x, e
        self.output = {} if output is None else output

    def state(self, path: str, port: str) -> Array:
        """The state at a component's port."""
        block, row = self._plan.state_of[self._plan.junction_of[path, port]]
        return self._x[block][row]

    def effort(self, path: str, port: str) -> Float[Array, " n"]:
        """The effort at a component's power port."""
        return self._e[self._plan.slots[self._plan.junction_of[path, port]]]


class PortView:
    """A `StateView` that also knows the effort at the driven port itself."""

    def __init__(self, view: StateView, slot):
        self.state, self.effort, self.output = view.state, view.effort, view.output
        self.own_effort = view._e[slot]
