"""Identification: from recorded motion to parameters with intervals."""

from jmbs.identification.check import Check, Sensitivities, check_fit
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
from jmbs.identification.design import design_study
from jmbs.identification.design_limits import Reach, check_excitation
from jmbs.identification.design_result import (
    ExcitationDesign,
    Expectation,
    InputTable,
    design_record,
    design_summary,
)
from jmbs.identification.design_search import DesignProgress
from jmbs.identification.estimates import ChannelFit, DerivedEstimate, Estimate, InvisibleDirection
from jmbs.identification.excitation import Basis, BSpline, Excitation, Multisine
from jmbs.identification.expressions import Expression, parse_expression
from jmbs.identification.findings import Finding
from jmbs.identification.fit import fit_study
from jmbs.identification.fit_dataset import channel_rows
from jmbs.identification.fit_record import as_json, check_record, fit_record, plain_values
from jmbs.identification.fit_table import (
    check_summary,
    effort_text,
    error_text,
    has_robust_errors,
    interval_text,
    number_text,
)
from jmbs.identification.optimiser import Optimiser
from jmbs.identification.output_names import OutputName, parse_index, parse_output
from jmbs.identification.parameter_paths import (
    ParameterPath,
    entries_of_path,
    known_parameters,
    names_in_expressions,
    parse_parameter,
    require_start,
    taken_already,
)
from jmbs.identification.places import Place, place_of, unit_of, value_at, with_places
from jmbs.identification.position import Progress
from jmbs.identification.predictions import PredictedChannel
from jmbs.identification.profiles import Profile
from jmbs.identification.quantities import require_names
from jmbs.identification.residual_function import Residual, residual_function
from jmbs.identification.residual_tests import Whiteness, autocorrelation, judged, residual_findings, whiteness
from jmbs.identification.result import Fit
from jmbs.identification.start_findings import findings_at_start, swapped_channels, unit_suspect
from jmbs.identification.study import Channel, Estimator, Input, Parameter, Prior, Recording, Sensor, Study
from jmbs.identification.ties import in_order
from jmbs.identification.units import conversion, parse_unit
from jmbs.identification.wildcards import by_single_path

__all__ = [
    "BSpline",
    "Basis",
    "DesignProgress",
    "Excitation",
    "ExcitationDesign",
    "Expectation",
    "InputTable",
    "Multisine",
    "Reach",
    "check_excitation",
    "design_record",
    "design_study",
    "design_summary",
    "Channel",
    "ChannelFit",
    "Check",
    "DerivedEstimate",
    "Estimate",
    "Estimator",
    "Expression",
    "Finding",
    "Fit",
    "Input",
    "InvisibleDirection",
    "Optimiser",
    "OutputName",
    "Parameter",
    "PredictedChannel",
    "ParameterPath",
    "Place",
    "Prior",
    "Profile",
    "Recording",
    "Sensitivities",
    "Sensor",
    "Study",
    "before_start",
    "by_single_path",
    "check_fit",
    "fit_study",
    "Progress",
    "conversion",
    "entries_of_path",
    "findings_at_start",
    "increasing",
    "input_findings",
    "in_order",
    "known_parameters",
    "names_in_expressions",
    "taken_already",
    "missing_column",
    "number_findings",
    "parse_expression",
    "parse_index",
    "parse_output",
    "parse_parameter",
    "parse_unit",
    "place_of",
    "recording_findings",
    "require_start",
    "signal_findings",
    "swapped_channels",
    "time_findings",
    "unit_of",
    "unit_suspect",
    "value_at",
    "with_places",
    "Whiteness",
    "as_json",
    "autocorrelation",
    "channel_rows",
    "check_record",
    "check_summary",
    "effort_text",
    "error_text",
    "fit_record",
    "has_robust_errors",
    "interval_text",
    "judged",
    "number_text",
    "plain_values",
    "residual_findings",
    "require_names",
    "residual_function",
    "Residual",
    "whiteness",
]
