"""The steps of a fit: errors that move no estimate, where the fit starts and where it ends."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from recorded_pendulums import study

from jmbs.identification import Check, fit_study
from jmbs.identification.problem import of_steps, pose, with_steps
from jmbs.identification.steps import MOVES


@pytest.fixture(scope="module")
def problem():
    return pose(study(noise=2e-4))


def test_recordings_of_one_program_take_the_steps_that_its_knots_allow(problem):
    """The driven one's kinks are 20 ms apart and stay on the ends of steps."""
    steps, knots = problem.steps(), {e.program.knots for e in problem.experiments}
    assert len(knots) == 1
    assert (0.02 / steps["driven"]) == pytest.approx(round(0.02 / steps["driven"]), abs=1e-9)
    for e in problem.experiments:
        assert steps[e.recording.name] * (e.program.knots - 1) >= float(np.max(e.recording.ts)) - 1e-9


def test_errors_of_steps_move_no_estimate(problem):
    """Against steps of a quarter, all samples of a channel together."""
    x = problem.unknowns.first
    for e in problem.experiments:
        member = dataclasses.replace(e.member, step=e.member.step / 4)
        program = dataclasses.replace(e.program, knots=4 * (e.program.knots - 1) + 1)
        (coarse,), (fine,) = (
            problem.predicted(each, problem.local(e, x)).values()
            for each in (e, e._replace(program=program, member=member))
        )
        assert np.linalg.norm((coarse - fine) * e.weights["q"][: len(fine)]) < 1.5 * MOVES


def test_a_livelier_motion_wants_shorter_steps(problem):
    """Steps are those of the motion at the coordinates; where they were short enough before they stay."""
    x = np.array(problem.unknowns.first)
    names = [name for block in problem.unknowns.blocks for name in block.names]
    assert with_steps(problem, x, problem.steps()).steps() == problem.steps()
    x[names.index("recordings/free/initial/hinge/q")] *= 0.01
    quiet = with_steps(problem, x)
    assert with_steps(quiet, problem.unknowns.first, quiet.steps()).steps()["free"] < quiet.steps()["free"]


@pytest.mark.slow
def test_a_fit_ends_with_steps_for_its_own_motion():
    """From steps that are too long for it: the same end as with those that are short enough from the start."""
    posed = pose(study(("driven",), noise=2e-5))
    long = of_steps(posed, {"driven": 0.02})
    assert posed.steps()["driven"] < long.steps()["driven"]
    one, other = (fit_study(p.study, check=Check((), problem=p)) for p in (posed, long))
    for name, entry in one.parameters.items():
        assert other.parameters[name].estimate == pytest.approx(entry.estimate, rel=1e-7), name
