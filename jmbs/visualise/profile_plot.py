"""A picture of a profile: how chi-squared rises along one value."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from jmbs.identification import Profile
from jmbs.visualise.canvas import new_figure
from jmbs.visualise.fit_plots import ALARM, WIDTH, finish, short_name, titled

HEIGHT = 2.8
SMOOTH = 200


def profile_figure(profile: Profile) -> Figure:
    """Chi-squared above its minimum along the value, beside the parabola of its standard error and the 95 % line."""
    figure = new_figure(HEIGHT, WIDTH)
    ax = figure.add_subplot()
    values = np.asarray(profile.values, float)
    line = np.linspace(values[0], values[-1], SMOOTH)
    parabola = ((line - profile.estimate) / profile.standard_error) ** 2
    ax.plot(line, parabola, "--", color="0.6", linewidth=1.0, label="by the standard error")
    ax.plot(values, profile.increase, "o-", color="C0", markersize=4, linewidth=1.2, label="all others fitted again")
    failed = ~np.asarray(profile.converged, bool)
    if failed.any():
        ax.plot(values[failed], profile.increase[failed], "x", color=ALARM, label="not converged")
    ax.axhline(profile.threshold, color="0.2", linewidth=0.8, label="95 %")
    for end in profile.interval:
        if end is not None:
            ax.axvline(end, color="C0", linewidth=0.8, linestyle=":")
    ax.set_xlabel(f"{short_name(profile.name)}{f' ({profile.unit})' if profile.unit else ''}", fontsize=8)
    ax.set_ylabel("rise of chi-squared", fontsize=8)
    ax.set_ylim(min(0.0, profile.lowest), 1.05 * max(float(np.max(profile.increase)), profile.threshold))
    titled(ax, f"profile of {profile.name}")
    figure.legend(loc="outside lower center", ncols=4, fontsize=8)
    finish(ax)
    return figure
