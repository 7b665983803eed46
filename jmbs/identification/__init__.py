"""Identification: from recorded motion to parameters with intervals."""

from jmbs.identification.check import Check
from jmbs.identification.findings import Finding
from jmbs.identification.fit_dataset import channel_rows
from jmbs.identification.fit_record import as_json, check_record, fit_record, jmbs_version, plain_values
from jmbs.identification.fit_table import check_summary, effort_text, error_text, interval_text, number_text
from jmbs.identification.residual_tests import Whiteness, autocorrelation, judged, residual_findings, whiteness
from jmbs.identification.result import (
    ChannelFit,
    DerivedEstimate,
    Estimate,
    Fit,
    InvisibleDirection,
)
from jmbs.identification.study import Channel, Estimator, Input, Parameter, Prior, Recording, Sensor, Study

__all__ = [
    "Channel",
    "ChannelFit",
    "Check",
    "DerivedEstimate",
    "Estimate",
    "Estimator",
    "Finding",
    "Fit",
    "Input",
    "InvisibleDirection",
    "Parameter",
    "Prior",
    "Recording",
    "Sensor",
    "Study",
    "Whiteness",
    "as_json",
    "autocorrelation",
    "channel_rows",
    "check_record",
    "check_summary",
    "effort_text",
    "error_text",
    "fit_record",
    "interval_text",
    "jmbs_version",
    "judged",
    "number_text",
    "plain_values",
    "residual_findings",
    "whiteness",
]
