"""Which components of a flattened system meet where."""

from __future__ import annotations

from collections.abc import Collection

from jmbs.ephs.component import Role, follows, role
from jmbs.ephs.flatten import FlatSystem
from jmbs.ephs.interface import Quantity


class Junctions:
    """Look-ups in a flattened system: `name[path, port]` of the junction at a port, `ports[name]` that meet there, and
    `outer[name]`, the root's ports there."""

    def __init__(self, flat: FlatSystem):
        self.flat = flat
        self.name = {pair: j.name for j in flat.junctions for pair in j.ports}
        self.ports = {j.name: j.ports for j in flat.junctions}
        self.outer = {j.name: j.outer for j in flat.junctions}

    def of_class(self, junction: str, kind: type | tuple[type, ...]) -> list[tuple[str, str]]:
        """Paths and ports of the components there that follow a class."""
        return [(path, port) for path, port in self.ports[junction] if follows(self.flat.components[path], kind)]

    def only(self, junction: str, kind: type | tuple[type, ...]) -> tuple[str, str] | None:
        """The one that follows a class, if it is one."""
        found = self.of_class(junction, kind)
        return found[0] if len(found) == 1 else None

    def instance(self, junction: str, kind: type | tuple[type, ...]) -> tuple[str, str] | None:
        """The first component there of a class, whatever it redefines."""
        found = (pair for pair in self.ports[junction] if isinstance(self.flat.components[pair[0]], kind))
        return next(found, None)

    def acting(self, junction: str, but: Collection[str]) -> list[str]:
        """What exchanges power there, `but` these components: power ports of others, and drives."""
        ports = [(path, port) for path, port in self.ports[junction] if path not in but]
        drives = [f"inputs/{port}" for port in self.outer[junction] if port in self.flat.drives]
        return drives + [f"{path}.{port}" for path, port in ports if self.flat.components[path].ports[port].power]

    def storing(self, quantities: Collection[Quantity]) -> list[tuple[str, str]]:
        """The ports of storages that hold one of these quantities."""
        storages = [(p, c) for p, c in self.flat.components.items() if role(c) is Role.STORAGE]
        return [(path, name) for path, c in storages for name, port in c.ports.items() if port.quantity in quantities]
