"""Loops and branches: written out where they are short, else as C has them.

What a loop carries are scalars, or arrays in memory where places are known only as it runs, or many entries. Scalars
that every round leaves as they were are not carried.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from jax.core import ShapedArray

from jmbs.fused.algebra import BOOL, apply
from jmbs.fused.expressions import INDEX, Break, CodeBlock, IfElse, Loop, Node, Variable
from jmbs.fused.flatten import Equation, Flat, is_update
from jmbs.fused.interpreter import ControlRule, Interpreter, plain
from jmbs.fused.values import Memory, Scalars, Value, array, fill, index, only, row, rows, scalars
from jmbs.jaxext import constants_and_carry

MANY = 512
"""Entries of a carried array, or of what branches give, that is in memory if it has more."""
PLACED = 16
"""The same where it is changed at places that are known as the loop runs."""

Targets = Sequence[Memory | None]
Body = Callable[[list[Value], Node], list[Value]]
"""Carried values and the number of the round, to the next values."""


def scan(to: Interpreter, eqn: Equation, args: list[Value], targets: Targets) -> list[Value]:
    """JAX's loop of known length."""
    p, body = eqn.params, to.flat(eqn.params["jaxpr"])
    (n, m), length = constants_and_carry(p), p["length"]
    consts, carry, xs = args[:n], args[n:m], args[m:]
    options = to.options
    if length <= 1 or (length <= options.unroll_below and length * to.flattener.weight(body) <= options.written_out):
        return _written_out(to, eqn, body, consts, carry, xs)
    types, ys_types = eqn.types[: m - n], eqn.types[m - n :]
    each = [rows(to.code, x, plain(t.dtype)) for x, t in zip(xs, eqn.given[m:], strict=True)]
    ys = [
        target or Memory(to.code.local(plain(t.dtype), math.prod(t.shape)), t.shape)
        for t, target in zip(ys_types, targets[m - n :], strict=True)
    ]

    def one(carry: list[Value], i: Node) -> list[Value]:
        # The arrays that rows are of are read again in the next round.
        after = to.run(body, [*consts, *carry, *(x(i) for x in each)], pinned=[*consts, *xs, *ys])
        for y, value in zip(ys, after[m - n :], strict=True):
            _fill_row(to, y, i, value)
        return after[: m - n]

    kept = [_is_in_memory(to, body, n + k, t) for k, t in enumerate(types)]
    carry = _rolled(to, carry, types, kept, targets[: m - n], one, length, p["reverse"])
    for y in ys:
        y.buffer.version += 1
        if y.buffer.kind == "local":
            to.code.finish(y.buffer)
    return [*carry, *ys]


def _fill_row(to: Interpreter, y: Memory, i: Node, value: Value) -> None:
    if math.prod(y.shape):
        place = row(to.code, y, i)
        assert isinstance(place, Memory)
        fill(to.code, place, value)


def _written_out(
    to: Interpreter, eqn: Equation, body: Flat, consts: list[Value], carry: list[Value], xs: list[Value]
) -> list[Value]:
    length, count = eqn.params["length"], len(carry)
    rounds: dict[int, list[Scalars]] = {}
    for i in range(length)[:: -1 if eqn.params["reverse"] else 1]:
        after = to.run(body, [*consts, *carry, *(row(to.code, x, i) for x in xs)], pinned=[*consts, *xs])
        carry, rounds[i] = after[:count], [scalars(to.code, y) for y in after[count:]]
    types = eqn.types[count:]
    if not length:
        return [*carry, *(np.empty(t.shape, object) for t in types)]
    return [*carry, *(np.stack([rounds[i][k] for i in range(length)]) for k in range(len(types)))]


def while_loop(to: Interpreter, eqn: Equation, args: list[Value], targets: Targets) -> list[Value]:
    """JAX's loop of unknown length."""
    p = eqn.params
    n, m = p["cond_nconsts"], p["cond_nconsts"] + p["body_nconsts"]
    going, body = to.flat(p["cond_jaxpr"]), to.flat(p["body_jaxpr"])
    consts, carry = args[:m], args[m:]

    def one(carry: list[Value], i: Node) -> list[Value]:
        (condition,) = to.run(going, [*consts[:n], *carry], pinned=[*consts, *carry])
        to.code.append(Break(only(scalars(to.code, condition)), _loop_of(to.code.block)))
        return to.run(body, [*consts[n:], *carry], pinned=consts)

    kept = [_is_in_memory(to, body, m - n + k, t) for k, t in enumerate(eqn.types)]
    return _rolled(to, carry, eqn.types, kept, targets, one, None)


def _loop_of(block: CodeBlock) -> Loop:
    assert isinstance(block.owner, Loop)
    return block.owner


def _rolled(
    to: Interpreter,
    carry: list[Value],
    types: Sequence[ShapedArray],
    kept: Sequence[bool],
    targets: Targets,
    one: Body,
    length: int | None,
    reverse: bool = False,
) -> list[Value]:
    """What a loop carries in the end. The body is written anew until all that it carries changes."""
    code = to.code
    first: list[Value] = []
    for value, t, memory, target in zip(carry, types, kept, targets, strict=True):
        first.append(to.owned(value, t, target) if memory else scalars(code, value))
    moving = [np.ones(value.shape, bool) for value in first]
    while True:
        for value in first:
            if isinstance(value, Memory):
                value.buffer.version += 1
        with code.loop(length, reverse) as loop:
            given = [_carried(to, loop, value, moves) for value, moves in zip(first, moving, strict=True)]
            after = one([*given], code.variable(loop.index))
            after = _settled(to, given, after)
        still = [_moves(*each) for each in zip(first, given, after, moving, strict=True)]
        if all(np.array_equal(a, b) for a, b in zip(still, moving, strict=True)):
            break
        moving = still
    code.append(loop)
    found = []
    for value, before, next_ in zip(first, given, after, strict=True):
        found.append(_finished(to, value, before, next_))
    return found


def _carried(to: Interpreter, loop: Loop, value: Value, moves: np.ndarray) -> Value:
    """What a round begins with: memory, variables, or what never changes."""
    if isinstance(value, Memory):
        return Memory(value.buffer, value.shape)
    nodes = []
    for node, is_moving in zip(value.flat, moves.flat, strict=True):
        if is_moving:
            variable = Variable(node.dtype, loop, (node,))
            loop.carried.append(variable)
            node = to.code.variable(variable)
        nodes.append(node)
    return array(nodes, value.shape)


def _settled(to: Interpreter, given: Sequence[Value], after: Sequence[Value]) -> list[Value]:
    """What a round ends with; in memory it is where it was before. All is read before any array is written over."""
    pairs = list(zip(given, after, strict=True))
    written = {id(a.buffer) for a, b in pairs if isinstance(a, Memory) and not _is_itself(a, b)}
    found: list[Value] = []
    for a, b in pairs:
        if not isinstance(a, Memory):
            b = scalars(to.code, b)
        elif isinstance(b, Memory) and id(b.buffer) in written and not _is_itself(a, b):
            copy = Memory(to.code.local(b.buffer.dtype, math.prod(b.shape)), b.shape)
            fill(to.code, copy, b)
            b = copy
        found.append(b)
    for k, (a, b) in enumerate(zip(given, found, strict=True)):
        if isinstance(a, Memory):
            if not _is_itself(a, b):
                fill(to.code, a, b)
            found[k] = a
    return found


def _is_itself(before: Memory, after: Value) -> bool:
    return isinstance(after, Memory) and after.buffer is before.buffer and after.is_whole


def _moves(first: Value, given: Value, after: Value, moving: np.ndarray) -> np.ndarray:
    """Which scalars change: not those that stay, and not those that become the constant that they were."""
    if isinstance(first, Memory) or isinstance(given, Memory) or isinstance(after, Memory):
        return moving
    each = zip(first.flat, given.flat, after.flat, moving.flat, strict=True)
    return np.array([move and c is not b and c is not a for a, b, c, move in each], bool).reshape(moving.shape)


def _finished(to: Interpreter, first: Value, given: Value, after: Value) -> Value:
    """What a loop leaves behind."""
    if isinstance(first, Memory) or isinstance(after, Memory) or isinstance(given, Memory):
        assert isinstance(first, Memory)
        first.buffer.version += 1
        return Memory(first.buffer, first.shape)
    nodes = []
    for start, node, next_ in zip(first.flat, given.flat, after.flat, strict=True):
        if node is start:
            nodes.append(start)
            continue
        variable = node.extra
        variable.values = start, next_
        nodes.append(to.code.variable(variable))
    return array(nodes, first.shape)


def _is_in_memory(to: Interpreter, body: Flat, which: int, t: ShapedArray) -> bool:
    """Whether an array that is carried is better in memory: its argument's number in the body."""
    size = math.prod(t.shape)
    return size > MANY or (size > PLACED and _is_placed(to, body, body.inputs[which]))


def _is_placed(to: Interpreter, body: Flat, v: int) -> bool:
    """Whether a variable is changed at places that are known only as the loop runs, here or in a loop inside."""
    for eqn in body.equations:
        read = [isinstance(x, int) and x == v for x in eqn.inputs]
        if not any(read):
            continue
        k, p = read.index(True), eqn.params
        if is_update(eqn.name) and k == 0:
            return True
        if eqn.name == "scan":
            programs = [(p["jaxpr"], k)]
        elif eqn.name == "while":
            programs = [(p["body_jaxpr"], k - p["cond_nconsts"])] if k >= p["cond_nconsts"] else []
        elif eqn.name == "cond" and k:
            programs = [(branch, k - 1) for branch in p["branches"]]
        else:
            programs = []
        for program, i in programs:
            inner = to.flat(program)
            if _is_placed(to, inner, inner.inputs[i]):
                return True
    return False


# -- branches ---------------------------------------------------------------------------------------------------------


def cond(to: Interpreter, eqn: Equation, args: list[Value], targets: Targets) -> list[Value]:
    """JAX's choice among programs."""
    which, branches = only(scalars(to.code, args[0])), [to.flat(branch) for branch in eqn.params["branches"]]
    return _switch(to, eqn, which, branches, 0, args[1:])


def _switch(
    to: Interpreter, eqn: Equation, which: Node, branches: list[Flat], number: int, args: list[Value]
) -> list[Value]:
    """The branch of that number, or one of those after it."""
    code = to.code
    if number == len(branches) - 1:
        return to.run(branches[number], args)
    if which.dtype == BOOL:
        this = apply(code, "logical_not", which)
    elif number == 0 and len(branches) == 2 and which.op == "convert" and which.args[0].dtype == BOOL:
        this = apply(code, "logical_not", which.args[0])
    else:
        this = apply(code, "le", index(code, which), code.constant(number, INDEX))
    if this.is_constant:
        return to.run(branches[number], args) if this.extra else _switch(to, eqn, which, branches, number + 1, args)
    branch = code.branch(this)
    with code.within(branch.blocks[0]):
        here = to.run(branches[number], args)
    with code.within(branch.blocks[1]):
        others = _switch(to, eqn, which, branches, number + 1, args)
    found = [_either(to, branch, t, a, b) for t, a, b in zip(eqn.types, here, others, strict=True)]
    code.append(branch)
    return [value() for value in found]


def _either(to: Interpreter, branch: IfElse, t: ShapedArray, a: Value, b: Value) -> Callable[[], Value]:
    """What both branches give as one; a function for what is read after them."""
    code = to.code
    if isinstance(a, Memory) and isinstance(b, Memory) and a.buffer is b.buffer and a.is_whole and b.is_whole:
        a.buffer.version += 1
        return lambda: a
    if math.prod(t.shape) > MANY:
        target = Memory(code.local(plain(t.dtype), math.prod(t.shape)), t.shape)
        for block, value in zip(branch.blocks, (a, b), strict=True):
            with code.within(block):
                fill(code, target, value)
        return lambda: target
    both: list[Scalars] = []
    for block, value in zip(branch.blocks, (a, b), strict=True):
        with code.within(block):
            both.append(scalars(code, value))
    nodes = [_chosen(branch, x, y) for x, y in zip(both[0].flat, both[1].flat, strict=True)]
    return lambda: array((code.variable(x) if isinstance(x, Variable) else x for x in nodes), t.shape)


def _chosen(branch: IfElse, x: Node, y: Node) -> Node | Variable:
    if x is y:
        return x
    variable = Variable(x.dtype, branch, (x, y))
    branch.given.append(variable)
    return variable


RULES: dict[str, ControlRule] = {"scan": scan, "while": while_loop, "cond": cond}
