"""Mistakes made by chance, the same for the same seed: in configs, in URDF and MJCF files, and in bytes."""

from __future__ import annotations

import copy
import random
import xml.etree.ElementTree as ElementTree
from typing import Any

import yaml

NUMBERS = [0, -1, 1, 7, 0.5, 1e-320, 1e20, -1e20, 1e49, 1e308, -1e308, float("nan"), float("inf"), 10**20, -(10**400)]
WORDS = ["", "x", "x" * 300, "ground", "environment", "\x1b[31m", "a b", "../x", "/dev/zero", "a:b", "os:system", "a.b"]
OTHERS = [None, True, [], {}, [[]], [1, 2], [1, 2, 3], [[1, 2], [3]], [[1, 0, 0], [0, 1, 0], [0, 0, 1]], {"x": 1}]
DEEP: Any = [[[[[[[[[[[[1]]]]]]]]]]]]
VALUES = [*NUMBERS, *WORDS, *OTHERS, {"table": "no.csv", "columns": ["a"]}, {"type": "math:cos"}, DEEP]
ATTRIBUTES = [
    "",
    "x",
    "0",
    "-1",
    "1 2",
    "1 2 3",
    "nan",
    "inf",
    "1e20",
    "1e308",
    "-1e308",
    "0 0 0",
    "x" * 300,
    "1e-320",
    "\x9b",
]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All mappings and lists with their keys and indices."""
    if isinstance(value, dict):
        return [(value, key) for key in value] + [pair for entry in value.values() for pair in _places(entry)]
    if isinstance(value, list):
        pairs = [(value, index) for index in range(len(value))]
        return pairs + [pair for entry in value for pair in _places(entry)]
    return []


def mutated_config(text: str, seed: int) -> bytes:
    """A config after one to three mistakes."""
    chance = random.Random(seed)
    if chance.random() < 0.2:
        return mutated_bytes(text.encode(), chance)
    config = yaml.safe_load(text)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        _mutate(config, chance)
    text = yaml.dump(config, sort_keys=chance.random() < 0.2, allow_unicode=True)
    if chance.random() < 0.1:
        lines = text.splitlines(keepends=True)
        lines.insert(chance.randrange(len(lines)), chance.choice(lines))
        text = "".join(lines)
    return text.encode()


def _mutate(config: dict[str, Any], chance: random.Random) -> None:
    places = _places(config)
    if not places:
        return
    holder, key = chance.choice(places)
    other, other_key = chance.choice(places)
    known = [there[at] for there, at in places]
    match chance.randrange(8):
        case 0:
            del holder[key]
        case 1:
            holder[key] = chance.choice(VALUES)
        case 2 | 3:
            holder[key] = chance.choice([entry for entry in VALUES + known if _alike(entry, holder[key])] or VALUES)
        case 4:
            holder[key] = copy.deepcopy(other[other_key])
        case 5 if isinstance(holder, dict):
            holder[chance.choice([*WORDS, f"{key}x", str(other_key)])] = holder.pop(key)
        case 6 if isinstance(holder[key], int | float):
            holder[key] = holder[key] * chance.choice([-1, 0, 1e3, 1e9, 1e-12, 1e30])
        case _ if isinstance(holder, list):
            holder.append(copy.deepcopy(other[other_key]))
        case _:
            holder[key] = [holder[key]] if chance.random() < 0.5 else {"x": holder[key]}


def _alike(a: Any, b: Any) -> bool:
    """Whether both are numbers, or of one type and length."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return True
    return type(a) is type(b) and (isinstance(a, str) or (isinstance(a, list) and len(a) == len(b)))


def mutated_bytes(content: bytes, chance: random.Random) -> bytes:
    """Content after a few bytes or stretches of it were changed, doubled or lost."""
    result = bytearray(content)
    for _ in range(chance.randint(1, 4)):
        start = chance.randrange(len(result))
        end = min(len(result), start + chance.choice([1, 1, 3, 40]))
        match chance.randrange(4):
            case 0:
                del result[start:end]
            case 1:
                result[start:start] = result[start:end]
            case 2:
                result[start] = chance.randrange(256)
            case _:
                result[start:end] = chance.choice(
                    [b"&a ", b"*a", b"!!int ", b"{", "\u00e4".encode(), b"\xff", b"\n", b"<<: "]
                )
    return bytes(result)


def mutated_xml(text: str, seed: int) -> bytes:
    """A URDF or MJCF file after one to three mistakes."""
    chance = random.Random(seed)
    if chance.random() < 0.2:
        return mutated_bytes(text.encode(), chance)
    root = ElementTree.fromstring(text)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        nodes = [(parent, node) for parent in root.iter() for node in parent]
        if not nodes:
            break
        parent, node = chance.choice(nodes)
        match chance.randrange(6):
            case 0:
                parent.remove(node)
            case 1:
                parent.append(copy.deepcopy(node))
            case 2:
                chance.choice(nodes)[0].append(copy.deepcopy(node))
            case 3 if node.attrib:
                del node.attrib[chance.choice(list(node.attrib))]
            case 4:
                node.tag = chance.choice([other.tag for _, other in nodes])
            case _:
                key = chance.choice([*node.attrib, "name", "type", "axis", "pos", "xyz"])
                node.set(key, chance.choice(ATTRIBUTES))
    return ElementTree.tostring(root)
