"""The energy account of a run, as a section of a report."""

from __future__ import annotations

import numpy as np

from jmbs.simulation import Trajectory, is_successful, labelled_arrays, message
from jmbs.visualise.plots import account_figure
from jmbs.visualise.web_page import paragraph, picture, section, table

TITLE = "Energy account"


def account_section(trajectory: Trajectory | None) -> tuple[str, str]:
    """Where the energy of a run went, and how well the first law closes; says so where there is no account."""
    if trajectory is None or trajectory.total is None:
        return section(TITLE, paragraph("The fitted model was not run with its account."))
    known = np.isfinite(np.asarray(trajectory.total))
    if not known.any():
        return section(TITLE, paragraph("The run of the fitted model failed at its start."))
    stored = np.asarray(trajectory.total)[known]
    residual = float(np.max(np.abs(np.asarray(trajectory.first_law_residual, float)[known])))
    moved = {
        "work supplied by drives and loads": _last(trajectory.supplied, known),
        "change of stored energy": float(stored[-1] - stored[0]),
        "dissipated": _last(trajectory.dissipated, known),
        "work of projections": _last(trajectory.projection_work, known),
        "largest first-law residual": residual,
    }
    scale = max(float(np.ptp(stored)), *(abs(value) for value in moved.values()))
    rows = [(name, f"{value:.6g}", f"{value / scale:.2g}" if scale else "-") for name, value in moved.items()]
    entropy = _last(trajectory.entropy_produced, known)
    body = table(("energy", "J", "share of the largest"), rows)
    body += paragraph(f"Entropy produced: {entropy:.6g} J/K{'' if entropy >= 0 else ', which no passive model does'}.")
    if not is_successful(trajectory.status):
        body = paragraph(f"The run did not reach its end: {message(trajectory.status)}", "warning") + body
    figure = account_figure(labelled_arrays(trajectory))
    return section(TITLE, body, picture(figure, "Energies, entropy and first-law residual over time") if figure else "")


def _last(values, known: np.ndarray) -> float:
    return float(np.asarray(values)[known][-1])
