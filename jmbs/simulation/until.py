"""What ends a run: a joint's coordinate at a value, or a root of a user's function."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from jmbs.arrays import is_traced
from jmbs.ephs import Plan, StateView
from jmbs.errors import ModelError
from jmbs.library.mechanics import FoundJoint, MechanicalParts, nearest, show
from jmbs.simulation.arguments import known_number
from jmbs.simulation.formulation import AbsoluteFormulation, TreeFormulation
from jmbs.simulation.motion_view import MotionView
from jmbs.simulation.user_functions import called, real_array, require_arguments

if TYPE_CHECKING:
    from jmbs.simulation.model import Model

WANTED = 'a mapping of joints to values, such as {"elbow": 0.0}, or a function (t, view) of one value'


@dataclasses.dataclass(frozen=True)
class Until:
    """What ends a run, at the first time after its start at which

    - one of `joints`, names of joints with one coordinate, takes its value (rad or m), from either side; or
    - `function` `(t, view)` is zero: one number from the time, s, and a `MotionView`; compared by identity.

    A start at the value is no event. An event is seen where a step ends on the other side: what crosses the value twice
    within one step is not seen, and what touches it without crossing may not be.
    """

    joints: tuple[str, ...] = ()
    function: Callable | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the events, in the order of what is watched."""
        return self.joints or ("function",)


class Roots(eqx.Module):
    """Functions `(t, y, field) -> (roots,)` of the integrated state, whose roots are what ends a run.

    **Arguments:** `goals` (roots,), values of the joints' coordinates; `formulation`, whose state it is.
    """

    until: Until = eqx.field(static=True)
    goals: Float[Array, " roots"]
    formulation: type[AbsoluteFormulation] | type[TreeFormulation] = eqx.field(static=True)
    plan: Plan = eqx.field(static=True)
    parts: MechanicalParts = eqx.field(static=True)

    def __call__(self, t: Float[Array, ""], y: Any, field: Any) -> Float[Array, " roots"]:
        seen = self.formulation(field.dae)
        if self.until.function is None:
            x, efforts = seen.reference_state(y[0]), self.goals[:0]
        else:
            instant = seen.look(t, y[0], None)
            x, efforts = instant.x, jnp.concatenate(instant.efforts)
        view = MotionView(StateView(self.plan, x, efforts), self.parts)
        if self.until.function is None:
            return jnp.concatenate([view.q[joint] for joint in self.until.joints]) - self.goals
        value = real_array("until", called("until", self.until.function, t, view), "a function that gives one number")
        if value.size != 1:
            raise ModelError("until", f"a function whose values have the shape {value.shape}", "one number")
        return value.astype(t.dtype).reshape(1)


def until_of(model: Model, given: Any) -> tuple[Until | None, Any]:
    """What ends a run, and the values of coordinates (roots,) at which it does; None where nothing does.

    **Arguments:** `given`: as `simulate` takes it; None for what the model's settings say. Raises `ModelError`.
    """
    path = "until" if given is not None else "simulation/until"
    given = dict(model.settings.until) if given is None else given
    if callable(given):
        require_arguments("until", given, "t, view")
        return Until(function=given), [0.0]
    if not isinstance(given, Mapping):
        raise ModelError("until", show(given), WANTED)
    if not given:
        return None, None
    joints = {joint.name: joint for joint in model.layout.parts.joints}
    goals = [_goal(f"{path}/{name}", name, value, joints) for name, value in given.items()]
    if is_traced(goals):
        goals = jnp.stack([jnp.asarray(goal, model.dtype) for goal in goals])
    return Until(tuple(given)), goals


def _goal(path: str, name: Any, value: Any, joints: Mapping[str, FoundJoint]) -> Any:
    if name not in joints:
        raise ModelError(path, f"no joint {name}", f"the name of a joint{nearest(str(name), joints)}")
    coordinates = len(joints[name].names.q_names)
    if coordinates != 1:
        raise ModelError(
            path, f"a joint of {coordinates} coordinates", "one of one coordinate, or a function (t, view)"
        )
    if not is_traced(value):
        return known_number(path, value)
    if jnp.shape(value) != ():
        raise ModelError(path, f"an array of shape {jnp.shape(value)}", "one number")
    return value
