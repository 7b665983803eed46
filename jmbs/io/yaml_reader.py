"""Reads YAML with one meaning per spelling: keys used twice are refused, `1e-4` is a number, `on` is a word."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from jmbs.io.config_error import ConfigError
from jmbs.library.mechanics import show

_NULL, _BOOL, _INT, _FLOAT, _MERGE = (f"tag:yaml.org,2002:{kind}" for kind in ("null", "bool", "int", "float", "merge"))


class _Loader(yaml.SafeLoader):
    """Scalars as in the core schema of YAML 1.2, whose rules hold fewer surprises than PyYAML's 1.1.

    In 1.1 `1e-4` is a string, `on` a truth value, `010` eight and `1:30` ninety.
    """

    yaml_implicit_resolvers: dict[str, Any] = {}


for _tag, _pattern, _first in (
    (_NULL, r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    (_BOOL, r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    (_INT, r"[-+]?[0-9]+", list("-+0123456789")),
    (_FLOAT, r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
    (_FLOAT, r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)", list("-+.")),
    (_MERGE, r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(_tag, re.compile(rf"^(?:{_pattern})$"), _first)
_Loader.add_constructor(_INT, lambda loader, node: _construct_int(node))


def _construct_int(node: yaml.Node) -> int | float:
    # Python refuses to parse absurdly long integers; as a float it becomes infinite and is refused with its path.
    return int(node.value) if len(node.value) < 400 else float(node.value)


def _mark(error: yaml.YAMLError) -> str:
    """What is broken and where, on one line."""
    if isinstance(error, yaml.MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        return f"broken YAML at line {mark.line + 1}, column {mark.column + 1} ({error.problem})"
    return f"broken YAML ({' '.join(str(error).split())})"


def _check_keys(file: Path, node: yaml.Node, path: str, open_nodes: tuple[int, ...], done: set[int]) -> None:
    """Refuses keys that are used twice or are not words, and values that contain themselves."""
    if id(node) in open_nodes:
        raise ConfigError(file, path, "an alias of a value that contains it", "a value that ends")
    if id(node) in done:
        return
    open_nodes = (*open_nodes, id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, entry in enumerate(node.value):
            _check_keys(file, entry, f"{path}/{index}" if path else str(index), open_nodes, done)
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, entry in node.value:
            line = key.start_mark.line + 1
            if key.tag == _MERGE:
                _check_keys(file, entry, path, open_nodes, done)
                continue
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                key_shown = show(key.value) if isinstance(key, yaml.ScalarNode) else "that is a collection"
                raise ConfigError(
                    file,
                    path,
                    f"the key {key_shown} in line {line}",
                    "a word as key (in quotes if YAML reads it as something else)",
                )
            below = f"{path}/{key.value}" if path else key.value
            if key.value in lines:
                found = f"the name used twice, in lines {lines[key.value]} and {line}"
                raise ConfigError(file, below, found, "each name only once")
            lines[key.value] = line
            _check_keys(file, entry, below, open_nodes, done)
    done.add(id(node))


def read_text(file: Path) -> str:
    """The text of a file in UTF-8. Raises `ConfigError` if it is absent, a folder, unreadable or not text."""
    try:
        content = file.read_bytes()
    except FileNotFoundError:
        raise ConfigError(file, "", "no such file", "a YAML config") from None
    except IsADirectoryError:
        raise ConfigError(file, "", "a folder", "a YAML config, which is a file") from None
    except (OSError, ValueError) as error:
        raise ConfigError(file, "", f"a file that cannot be read ({error})", "a YAML config") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise ConfigError(file, "", "bytes that are not UTF-8 text", "a YAML config in UTF-8")
    return text


def parse_value(text: str) -> Any:
    """A YAML value from an argument of the command line. Raises `yaml.YAMLError`."""
    return yaml.load(text, Loader=_Loader)


def read_yaml(file: Path) -> dict[str, Any]:
    """The mapping in a YAML file. Raises `ConfigError` with line and column where the YAML itself is broken."""
    text = read_text(file)
    loader = None
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            raise ConfigError(file, "", "an empty file", "a YAML config starting with schema: jmbs/1")
        _check_keys(file, node, "", (), set())
        result = loader.construct_document(node)
    except yaml.YAMLError as error:
        raise ConfigError(file, "", _mark(error), "valid YAML") from None
    except RecursionError:
        raise ConfigError(file, "", "values nested too deeply", "a YAML config of a few levels") from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(result, dict):
        raise ConfigError(file, "", show(result), "a mapping at the top, starting with schema: jmbs/1")
    return result
