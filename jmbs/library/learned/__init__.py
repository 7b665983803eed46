"""Components with networks inside, which keep the laws of energy and entropy whatever their weights."""

from jmbs.library.learned.coupling import NetworkCoupling
from jmbs.library.learned.dissipation import NetworkDissipation, NetworkFriction
from jmbs.library.learned.network import Network
from jmbs.library.learned.potential import NetworkPotential

__all__ = ["Network", "NetworkCoupling", "NetworkDissipation", "NetworkFriction", "NetworkPotential"]
