"""What every irreversible and every reversible component must obey, on random states and efforts."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from library.random_states import THETA0, assert_close, normal, other, sampled, states, uniform

from jmbs.ephs import ENTROPY, Efforts, Role, role


def assert_second_law(component):
    """Reciprocity, non-negative dissipation and conserved energy, at temperatures from cold to hot."""
    assert role(component) is Role.IRREVERSIBLE
    ports = {name: port for name, port in component.ports.items() if port.power}
    thermal = [name for name, port in ports.items() if port.quantity.name == ENTROPY]

    def sample(key):
        efforts = {}
        for i, (name, port) in enumerate(ports.items()):
            k = other(key, i)
            # 40 K to 540 K at thermal ports, where the effort is the difference to the environment.
            heat = 250.0 * (2.0 * uniform(k, 1) - 1.0)
            efforts[name] = heat if name in thermal else normal(k, port.dim)
        M = component.onsager({}, Efforts(efforts, jnp.asarray(THETA0)))
        energy = jnp.concatenate([e + THETA0 if n in thermal else e for n, e in efforts.items()])
        flows = M @ jnp.concatenate(list(efforts.values())) / THETA0
        where = np.concatenate([np.full(p.dim, name in thermal) for name, p in ports.items()])
        entropy = -jnp.sum(jnp.where(where, flows, 0.0))
        return M - M.T, jnp.linalg.eigvalsh(M), M @ energy, energy @ flows, entropy

    asymmetry, eigenvalues, conserved, power, entropy = sampled(sample)
    scale = 1.0 + eigenvalues.max()
    assert_close(asymmetry / scale, 0.0, 1e-14)
    assert np.all(eigenvalues >= -1e-12 * scale)
    assert_close(conserved / scale, 0.0, 1e-10)
    assert_close(power / scale, 0.0)
    assert np.all(entropy > 0)


def assert_dirac(component):
    """A skew structure, hence no power lost, on random states and efforts."""
    assert role(component) is Role.REVERSIBLE
    n = sum(port.dim for port in component.ports.values() if port.power)

    def sample(key):
        J, C = component.structure(states(component, key))
        assert C is None
        e = normal(key, n)
        return J + J.T, e @ (J @ e), jnp.linalg.norm(J @ e)

    symmetric, power, size = sampled(sample)
    assert_close(symmetric, 0.0, 1e-15)
    assert_close(power, 0.0)
    assert np.all(size > 0)
