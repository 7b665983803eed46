"""Reads YAML with one meaning per spelling: keys used twice are refused, `1e-4` is a number, `on` is a word.

Tags beyond those of JSON's values are refused, and so are aliases that stand for more than anyone would write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from jmbs.files import read_bytes, reason
from jmbs.io.config_error import ConfigError
from jmbs.library.mechanics import show

_TAG = "tag:yaml.org,2002:"
_NULL, _BOOL, _INT, _FLOAT, _MERGE = (_TAG + kind for kind in ("null", "bool", "int", "float", "merge"))
_SPELLINGS = (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?[0-9]+", list("-+0123456789")),
    (_FLOAT, r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    (_FLOAT, r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
    (_MERGE, r"<<", ["<"]),
)
MOST_VALUES = 1_000_000
"""Values in a file, those that aliases stand for counted as often as they do."""
MOST_LEVELS = 100
"""Values inside of each other."""


class _Loader(yaml.SafeLoader):
    """Scalars as in the core schema of YAML 1.2, whose rules hold fewer surprises than PyYAML's 1.1.

    In 1.1 `1e-4` is a string, `on` a truth value, `010` eight and `1:30` ninety. A tag in the text, such as `!!int`,
    wants a spelling that has it without being told.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}
    yaml_constructors: dict[Any, Any] = {
        tag: construct
        for tag, construct in yaml.SafeLoader.yaml_constructors.items()
        if tag is None or tag in [_TAG + kind for kind in ("null", "bool", "int", "float", "str", "seq", "map")]
    }


for _tag, _pattern, _first in _SPELLINGS:
    _Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)


def _construct_int(loader: yaml.SafeLoader, node: yaml.Node) -> int | float:
    # Python refuses to parse absurdly long integers; as a float it becomes infinite and is refused with its path.
    return int(node.value) if len(node.value) < 400 else float(node.value)


def _of_its_spelling(tag: str, construct: Callable[..., Any]) -> Callable[..., Any]:
    """The constructor, for nodes that are spelled as values of the tag are."""
    patterns = [pattern for kind, pattern, _ in _SPELLINGS if kind == tag or (tag, kind) == (_FLOAT, _INT)]

    def checked(loader: yaml.SafeLoader, node: yaml.Node) -> Any:
        if not isinstance(node, yaml.ScalarNode) or not any(re.fullmatch(p, node.value) for p in patterns):
            found = show(node.value) if isinstance(node, yaml.ScalarNode) else "a collection"
            raise yaml.constructor.ConstructorError(None, None, f"{found} is no {tag[len(_TAG) :]}", node.start_mark)
        return construct(loader, node)

    return checked


for _tag, _construct in ({kind: _Loader.yaml_constructors[kind] for kind in (_NULL, _BOOL, _FLOAT)}).items():
    _Loader.add_constructor(_tag, _of_its_spelling(_tag, _construct))
_Loader.add_constructor(_INT, _of_its_spelling(_INT, _construct_int))


def _mark(error: yaml.YAMLError) -> str:
    """What is broken and where, on one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"broken YAML at line {mark.line + 1}, column {mark.column + 1} ({error.problem})"
    return f"broken YAML ({' '.join(str(error).split())})"


def _check(file: Path, node: yaml.Node, path: str, open_nodes: tuple[int, ...], sizes: dict[int, int]) -> int:
    """How many values a node stands for; refuses keys that are used twice or are not words, and values that contain
    themselves, or too many others. `sizes`: of the nodes that have been looked at."""
    if id(node) in open_nodes:
        raise ConfigError(file, path, "an alias of a value that contains it", "a value that ends")
    if len(open_nodes) > MOST_LEVELS:
        raise ConfigError(file, "", "values nested too deeply", "a YAML config of a few levels")
    if id(node) not in sizes:
        open_nodes = (*open_nodes, id(node))
        entries = _entries(file, node, path)
        sizes[id(node)] = 1 + sum(_check(file, entry, below, open_nodes, sizes) for below, entry in entries)
        if sizes[id(node)] > MOST_VALUES:
            found = f"{sizes[id(node)]} values, counted with those that aliases stand for"
            raise ConfigError(file, path, found, f"up to {MOST_VALUES}")
    return sizes[id(node)]


def _entries(file: Path, node: yaml.Node, path: str) -> Iterator[tuple[str, yaml.Node]]:
    """The values directly in a node, with their paths. Refuses wrong keys."""
    below = f"{path}/" if path else ""
    if isinstance(node, yaml.SequenceNode):
        yield from ((f"{below}{index}", entry) for index, entry in enumerate(node.value))
    if not isinstance(node, yaml.MappingNode):
        return
    lines: dict[str, int] = {}
    for key, entry in node.value:
        line = key.start_mark.line + 1
        if key.tag == _MERGE:
            yield path, entry
            continue
        if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
            key_shown = show(key.value) if isinstance(key, yaml.ScalarNode) else "that is a collection"
            wanted = "a word as key (in quotes if YAML reads it as something else)"
            raise ConfigError(file, path, f"the key {key_shown} in line {line}", wanted)
        if key.value in lines:
            found = f"the name used twice, in lines {lines[key.value]} and {line}"
            raise ConfigError(file, below + key.value, found, "each name only once")
        lines[key.value] = line
        yield below + key.value, entry


def read_text(file: Path) -> str:
    """The text of a file in UTF-8. Raises `ConfigError` if it is absent, a folder, unreadable or not text."""
    try:
        content = read_bytes(file)
    except FileNotFoundError:
        raise ConfigError(file, "", "no such file", "a YAML config") from None
    except IsADirectoryError:
        raise ConfigError(file, "", "a folder", "a YAML config, which is a file") from None
    except OSError as error:
        raise ConfigError(file, "", f"a file that cannot be read ({reason(error)})", "a YAML config") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ConfigError(file, "", "bytes that are not UTF-8 text", "a YAML config in UTF-8")
    return text


def parse_value(file: Path, text: str, path: str) -> Any:
    """A YAML value from an argument of the command line, for the place `path` of a config.

    Raises `yaml.YAMLError`, and `ConfigError` as `read_yaml` does.
    """
    return _value(file, text, path)


def _value(file: Path, text: str, path: str = "") -> Any:
    """The value in a text, None where there is none."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _check(file, node, path, (), {})
        return loader.construct_document(node)
    except RecursionError:
        raise ConfigError(file, path, "values nested too deeply", "a YAML config of a few levels") from None
    finally:
        loader.dispose()


def read_yaml(file: Path, schema: str = "jmbs/1") -> dict[str, Any]:
    """The mapping in a YAML file, which should be of the schema.

    Raises `ConfigError` with line and column where the YAML itself is broken.
    """
    try:
        result = _value(file, read_text(file))
    except yaml.YAMLError as error:
        raise ConfigError(file, "", _mark(error), "valid YAML") from None
    if result is None:
        raise ConfigError(file, "", "an empty file", f"a YAML config starting with schema: {schema}")
    if not isinstance(result, dict):
        raise ConfigError(file, "", show(result), f"a mapping at the top, starting with schema: {schema}")
    return result
