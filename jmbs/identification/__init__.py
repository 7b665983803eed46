"""Identification: from recorded motion to parameters with intervals."""

from jmbs.identification.findings import Finding
from jmbs.identification.result import ChannelFit, DerivedEstimate, Estimate, Fit, InvisibleDirection
from jmbs.identification.study import Channel, Estimator, Input, Parameter, Prior, Recording, Sensor, Study

__all__ = [
    "Channel",
    "ChannelFit",
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
]
