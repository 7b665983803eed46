"""A small smooth network whose weights are parameters by name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from jmbs.arrays import total
from jmbs.errors import ModelError
from jmbs.library.mechanics import WEIGHTS, count, known_seed, show, unit_and_rule

FIRST_OUTPUT = 0.3
"""How large the weights of the last layer are at first, beside those of the others."""


class Network(eqx.Module):
    """Layers `tanh(W x + b)`, the last one without `tanh`.

    **Arguments:** `weights` and `biases`, layer by layer, (m, n) and (m,). Without them `inputs`, `outputs`, the widths
    of the `hidden` layers and a `seed` give the first values. `given`: single arrays in place of these, as
    `{"weights": {0: ...}, "biases": {...}}`, which configs of fitted models hold.

    Raises `ModelError`.
    """

    weights: tuple[Float[Array, "m n"], ...] = eqx.field(metadata=unit_and_rule("1", WEIGHTS))
    biases: tuple[Float[Array, " m"], ...] = eqx.field(metadata=unit_and_rule("1", WEIGHTS))

    def __init__(self, inputs: int, outputs: int, hidden: int | Sequence[int] = (8,), seed: int = 0, given: Any = None):
        widths = [hidden] if isinstance(hidden, int) else list(hidden)
        sizes = [count(f"hidden/{i}", width) for i, width in enumerate(widths)]
        sizes = [count("inputs", inputs), *sizes, count("outputs", outputs)]
        rng = np.random.default_rng(known_seed(seed))
        weights, biases = [], []
        for layer, (n, m) in enumerate(zip(sizes, sizes[1:], strict=False)):
            last = layer == len(sizes) - 2
            weights.append((FIRST_OUTPUT if last else 1.0) * rng.normal(size=(m, n)) / np.sqrt(n))
            biases.append(np.zeros(m) if last else rng.normal(size=m))
        arrays = {"weights": weights, "biases": biases}
        _replace(arrays, {} if given is None else given)
        self.weights, self.biases = (tuple(map(jnp.asarray, arrays[key])) for key in ("weights", "biases"))

    @property
    def inputs(self) -> int:
        """How many numbers it takes."""
        return self.weights[0].shape[-1]

    def __call__(self, x: Float[Array, " n"]) -> Float[Array, " m"]:
        """What it makes of `x`. Raises `ModelError` for another number of inputs than it has."""
        if x.shape != (self.inputs,):
            raise ModelError("net", f"{x.size} inputs", f"{self.inputs}, for which the network was made")
        for weight, bias in zip(self.weights[:-1], self.biases[:-1], strict=True):
            x = jnp.tanh(_times(weight, x) + bias)
        return _times(self.weights[-1], x) + self.biases[-1]


def _times(weight: Float[Array, "m n"], x: Float[Array, " n"]) -> Float[Array, " m"]:
    """`weight @ x` without a product of matrices, of which compilers on CPUs make calls of a library."""
    return total((weight * x).T)


def _replace(arrays: dict[str, list[np.ndarray]], given: Any) -> None:
    """Puts arrays in the place of those of a kind and layer. Raises `ModelError`."""
    for kind, layers in _entries("net", given, arrays):
        for key, value in _entries(f"net/{kind}", layers, range(len(arrays[kind]))):
            before = arrays[kind][int(key)]
            try:
                found = np.asarray(value, dtype=float)
            except (TypeError, ValueError):
                found = np.zeros(0)
            if found.size != before.size or not np.all(np.isfinite(found)):
                raise ModelError(f"net/{kind}/{key}", show(value), f"finite numbers of shape {before.shape}")
            arrays[kind][int(key)] = found.reshape(before.shape)


def _entries(path: str, given: Any, known: Iterable[Any]) -> list[tuple[str, Any]]:
    """What a mapping, or a list, says for each of the known keys. Raises `ModelError`."""
    names = [str(key) for key in known]
    if isinstance(given, list | tuple):
        given = dict(enumerate(given))
    if not isinstance(given, Mapping) or not {str(key) for key in given} <= set(names):
        raise ModelError(path, show(given), f"a mapping with keys among {', '.join(names)}")
    return [(str(key), value) for key, value in given.items()]
