"""Pictures of models and results."""

from jmbs.visualise.diagram import draw as draw
from jmbs.visualise.fit_plots import correlation_figure as correlation_figure
from jmbs.visualise.fit_plots import intervals_figure as intervals_figure
from jmbs.visualise.fit_plots import residuals_figure as residuals_figure
from jmbs.visualise.fit_plots import singular_values_figure as singular_values_figure
from jmbs.visualise.fit_plots import trajectories_figure as trajectories_figure
from jmbs.visualise.fit_report import fit_page as fit_page
from jmbs.visualise.fit_report import write_fit_report as write_fit_report
from jmbs.visualise.plots import plot_trajectory as plot_trajectory
