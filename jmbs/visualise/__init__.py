"""Pictures of models and results."""

from jmbs.visualise.plots import plot_trajectory as plot_trajectory
