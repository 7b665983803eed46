"""Pictures of models and results."""

from jmbs.visualise.diagram import draw as draw
from jmbs.visualise.plots import plot_trajectory as plot_trajectory
