"""Identification: from recorded motion to parameters with intervals."""

from jmbs.identification.data_findings import (
    before_start,
    increasing,
    input_findings,
    missing_column,
    number_findings,
    recording_findings,
    signal_findings,
    time_findings,
)
from jmbs.identification.expressions import Expression, parse_expression
from jmbs.identification.findings import Finding
from jmbs.identification.output_names import OutputName, parse_output
from jmbs.identification.parameter_paths import (
    ParameterPath,
    entries_of_path,
    known_parameters,
    parse_parameter,
    require_start,
)
from jmbs.identification.result import ChannelFit, DerivedEstimate, Estimate, Fit, InvisibleDirection
from jmbs.identification.start_findings import findings_at_start, swapped_channels, unit_suspect
from jmbs.identification.study import Channel, Estimator, Input, Parameter, Prior, Recording, Sensor, Study
from jmbs.identification.units import conversion, in_unit, parse_unit

__all__ = [
    "Channel",
    "ChannelFit",
    "DerivedEstimate",
    "Estimate",
    "Estimator",
    "Expression",
    "Finding",
    "Fit",
    "Input",
    "InvisibleDirection",
    "OutputName",
    "Parameter",
    "ParameterPath",
    "Prior",
    "Recording",
    "Sensor",
    "Study",
    "before_start",
    "conversion",
    "entries_of_path",
    "findings_at_start",
    "in_unit",
    "increasing",
    "input_findings",
    "known_parameters",
    "missing_column",
    "number_findings",
    "parse_expression",
    "parse_output",
    "parse_parameter",
    "parse_unit",
    "recording_findings",
    "require_start",
    "signal_findings",
    "swapped_channels",
    "time_findings",
    "unit_suspect",
]
