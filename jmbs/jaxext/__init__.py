"""Every work-around for JAX and XLA, and nothing else; what each is for stands in `docs/jaxext.md`."""

from jmbs.jaxext.along_last import OPENED, Along
from jmbs.jaxext.any_member import any_member
from jmbs.jaxext.compiler import (
    ask_for_quick_compiling,
    ask_for_speed,
    compile_clock,
    platform_of_programs,
    quick_options,
    runs_on_cpu,
    version,
)
from jmbs.jaxext.deferred import deferred
from jmbs.jaxext.forward_run import forward_kernel
from jmbs.jaxext.kept_rule import kept_rule
from jmbs.jaxext.kernels import evaluated_once, one_kernel
from jmbs.jaxext.many import along_batches, of_members
from jmbs.jaxext.one_mode import forward_only, reverse_only
from jmbs.jaxext.scans import constants_and_carry
from jmbs.jaxext.static_places import all_entries_at, entries_across, entries_at, sums_at, sums_of_parts, with_entries
from jmbs.jaxext.switches import WORKAROUNDS, is_off, switched_off, without

__all__ = [
    "Along",
    "OPENED",
    "WORKAROUNDS",
    "all_entries_at",
    "along_batches",
    "any_member",
    "ask_for_quick_compiling",
    "ask_for_speed",
    "compile_clock",
    "constants_and_carry",
    "deferred",
    "entries_across",
    "entries_at",
    "evaluated_once",
    "forward_kernel",
    "forward_only",
    "is_off",
    "kept_rule",
    "of_members",
    "one_kernel",
    "platform_of_programs",
    "quick_options",
    "reverse_only",
    "runs_on_cpu",
    "sums_at",
    "sums_of_parts",
    "switched_off",
    "version",
    "with_entries",
    "without",
]
