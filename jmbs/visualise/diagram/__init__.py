"""Diagrams of interconnection patterns."""

from jmbs.visualise.diagram.drawing import Drawing as Drawing
from jmbs.visualise.diagram.drawing import draw as draw
