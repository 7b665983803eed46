"""The four primitive kinds of component and what each must declare.

A component is an equinox module with a `ports` interface and exactly one of

- `energy(x) -> scalar` (storage): `f = xdot`, `e = dE(x)`, for a thermal store `e = dE(x) - theta0`;
- `structure(x) -> (J, C)` (reversible): `f = J e + C^T lambda`, `0 = C e`; either may be `None`;
- `ratio(x) -> A` (reversible, transformer form): `e_out = A e_in`, `f_in = -A^T f_out`, with the output port named
  by the attribute `output`;
- `onsager(x, e) -> M` (irreversible): `f = M e / theta0`;
- nothing else for the environment, which is the class `Environment` itself.

`x` maps port names to states (power ports at junctions without storage have none), `e` maps power ports to efforts.
Any of them may declare outputs, see `jmbs.ephs.outputs`.
Nothing needs to inherit from a class of jmbs: the role is read off the method. An attribute `domain` says where a
component has meaning, see `jmbs.ephs.samples`.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from jmbs.ephs.interface import ENTROPY, Interface, power_port
from jmbs.errors import ModelError
from jmbs.lie import Rn


class Role(enum.Enum):
    """What a primitive component does with energy."""

    STORAGE = "energy"
    REVERSIBLE = "structure"
    TRANSFORMER = "ratio"
    IRREVERSIBLE = "onsager"
    ENVIRONMENT = "environment"


class Efforts(Mapping[str, Float[Array, " n"]]):
    """Efforts by port name, as components receive them, with the reference temperature and pressure beside."""

    def __init__(
        self,
        efforts: Mapping[str, Float[Array, " n"]],
        reference_temperature: Float[Array, ""],
        reference_pressure: Float[Array, ""] | None = None,
    ):
        self._efforts = efforts
        self.reference_temperature = reference_temperature
        self.reference_pressure = reference_pressure

    def __getitem__(self, port: str) -> Float[Array, " n"]:
        return self._efforts[port]

    def __iter__(self):
        return iter(self._efforts)

    def __len__(self) -> int:
        return len(self._efforts)

    def temperature(self, port: str) -> Float[Array, ""]:
        """Absolute temperature `theta0 + e` (K) at a thermal port."""
        return self.reference_temperature + self._efforts[port][0]

    def pressure(self, port: str) -> Float[Array, ""]:
        """Absolute pressure `pi0 - e` (Pa) at a port of a volume; without a reference pressure `pi0` is zero."""
        gauge = -self._efforts[port][0]
        return gauge if self.reference_pressure is None else self.reference_pressure + gauge


class Environment(eqx.Module):
    """The isothermal environment at the reference temperature: takes any heat, its entropy is counted."""

    @property
    def ports(self) -> Interface:
        return {"s": power_port(Rn(1), ENTROPY)}


LAWFUL = "lawful_by_construction"
OWN_PACKAGE = __name__.partition(".")[0]


def follows(component: object, kinds: type | tuple[type, ...]) -> bool:
    """Whether a component is of one of these classes, and means what the class does.

    One of a derived class does if that redefines nothing: whoever knows a class by name knows its laws, and not those
    of an override.
    """
    own = type(component)
    kinds = kinds if isinstance(kinds, tuple) else (kinds,)
    return any(issubclass(own, kind) and not _redefined(own, kind) for kind in kinds)


def is_lawful(component: object) -> bool:
    """Whether the class that says how a component works declares it `lawful_by_construction`.

    A derived class that redefines something of it has to declare that anew. The declaration says nothing of a component
    that holds code from outside of jmbs, such as a user's function or friction law: see `holds_foreign_code`.
    """
    for declaring in type(component).__mro__:
        if LAWFUL in vars(declaring):
            redefined = _redefined(type(component), declaring)
            return bool(getattr(component, LAWFUL)) and not redefined and not holds_foreign_code(component)
    return False


def holds_foreign_code(component: Any) -> bool:
    """Whether a field of it, or of what is in its fields, is a function or an object that jmbs does not define."""
    return any(_is_foreign(vars(component).get(field.name)) for field in dataclasses.fields(component))


def _is_foreign(value: Any) -> bool:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes) or hasattr(value, "dtype"):
        return False
    if isinstance(value, tuple | list | set | frozenset):
        return any(_is_foreign(part) for part in value)
    if isinstance(value, Mapping):
        return any(_is_foreign(part) for part in value.values())
    if str(getattr(value, "__module__", "")).partition(".")[0] != OWN_PACKAGE:
        return True
    return dataclasses.is_dataclass(value) and not isinstance(value, type) and holds_foreign_code(value)


def _redefined(own: type, kind: type) -> set[str]:
    """What `own` and the classes between it and `kind` say otherwise than `kind`; defaults of fields aside."""
    between = own.__mro__[: own.__mro__.index(kind)]
    fields = getattr(kind, "__dataclass_fields__", {})
    laws = lambda x: callable(x) or isinstance(x, property | classmethod | staticmethod)  # noqa: E731
    return {
        name
        for derived in between
        for name, value in vars(derived).items()
        if hasattr(kind, name) and not name.startswith("__") and name not in ("_abc_impl", LAWFUL)
        if laws(value) or name not in fields
    }


def role(component: object, path: str = "component") -> Role:
    """The role of a primitive component; raises `ModelError` unless it has exactly one."""
    if isinstance(component, Environment):
        return Role.ENVIRONMENT
    roles = [r for r in Role if r is not Role.ENVIRONMENT and callable(getattr(component, r.value, None))]
    if not hasattr(component, "ports") or len(roles) != 1:
        methods = [r.value for r in roles]
        raise ModelError(
            path,
            f"{type(component).__name__} with methods {methods}",
            "an equinox module with `ports` and one of energy, structure, ratio, onsager",
        )
    return roles[0]
