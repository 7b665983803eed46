"""The steps of a fit: errors that move no estimate, where the fit starts and where it ends."""

from __future__ import annotations

import contextlib
import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from recorded_pendulums import TRUTH, study

from jmbs.errors import ModelError
from jmbs.identification import Check, Estimator, Optimiser, Parameter, fit_study
from jmbs.identification.interpolation import REACH
from jmbs.identification.posing import pose
from jmbs.identification.prediction import known_knots
from jmbs.identification.problem_steps import has_shorter_steps, of_steps, stepped, with_steps
from jmbs.identification.steps import MOVES, chosen_step, is_coarse


@pytest.fixture(scope="module")
def problem():
    return pose(study(noise=2e-4))


def test_recordings_of_one_program_take_steps_of_their_own(problem):
    """They come to the end. The driven one's kinks are 20 ms apart and stay on the ends of steps."""
    steps = problem.steps()
    assert len({e.program for e in problem.experiments}) == 1
    assert (0.02 / steps["driven"]) == pytest.approx(round(0.02 / steps["driven"]), abs=1e-9)
    for e in problem.experiments:
        assert steps[e.recording.name] * (int(e.member.knots) - 1) >= float(np.max(e.recording.ts)) - 1e-9


def test_runs_end_where_nothing_later_is_asked_for(problem):
    """Residuals and derivatives up to a horizon are those of the whole run, which takes more steps."""
    x = problem.unknowns.first
    for e in problem.experiments:
        local, horizon = problem.local(e, x), 0.4
        whole, part = (problem.evaluate_one(e, local, until) for until in (np.inf, horizon))
        seen = np.asarray(e.member.times) <= horizon
        for a, b in zip(whole, part, strict=True):
            np.testing.assert_array_equal(b[seen], a[seen])
            assert not np.any(b[~seen])
        known = known_knots(e.program, e.member, [jnp.asarray(0.0)], horizon)
        assert REACH < int(known) - horizon / float(e.member.step) <= REACH + 1 < int(e.member.knots)


def test_what_was_run_is_not_run_again(problem):
    """The runs that chose the steps show the start: the same, bit for bit, as one that is made anew."""
    again = pose(problem.study)
    chosen = again.counts.simulations
    for e, before in zip(again.experiments, problem.experiments, strict=True):
        shown, x = again.shown(e, again.local(e, again.unknowns.first)), problem.unknowns.first
        problem.runs.clear()
        np.testing.assert_array_equal(shown, problem.shown(before, problem.local(before, x)))
        assert again.counts.simulations == chosen
        finer = np.arange(0.0, float(np.max(e.recording.ts)), 1e-3)[: 2 * len(e.recording.ts)]
        assert again.predicted(e, again.local(e, x), finer)["q"].shape == finer.shape
        chosen += 1
        again.shown(e, 1.01 * again.local(e, x))
        chosen += 1
        assert again.counts.simulations == chosen


def test_shorter_steps_and_other_starts_find_the_program_compiled(problem):
    problem.evaluate(problem.unknowns.first, problem.ends())
    steps = {name: step / 4 for name, step in problem.steps().items()}
    given = study(noise=2e-4, seed=3)
    starts = {name: Parameter(0.7 * value) for name, value in TRUTH.items()}
    other = pose(dataclasses.replace(given, parameters={**given.parameters, **starts}))
    with compiled() as programs:
        finer = of_steps(problem, steps)
        finer.evaluate(1.1 * finer.unknowns.first, finer.ends())
        of_steps(other, steps).evaluate(other.unknowns.first, other.ends())
    assert not programs


@contextlib.contextmanager
def compiled():
    """How long each program took that was compiled in the context."""
    found = []

    def note(event: str, duration_secs: float, **_: str | int) -> None:
        if event == "/jax/core/compile/backend_compile_duration":
            found.append(duration_secs)

    jax.monitoring.register_event_duration_secs_listener(note)
    try:
        yield found
    finally:
        jax.monitoring.unregister_event_duration_listener(note)


def test_errors_of_steps_move_no_estimate(problem):
    """Against steps of a quarter, all samples of a channel together."""
    x = problem.unknowns.first
    for e in problem.experiments:
        finer = stepped(e, float(e.member.step) / 4)
        (coarse,), (fine,) = (problem.predicted(each, problem.local(e, x)).values() for each in (e, finer))
        assert np.linalg.norm((coarse - fine) * e.weights["q"][: len(fine)]) < 1.5 * MOVES


def test_a_livelier_motion_wants_shorter_steps(problem):
    """Steps are those of the motion at the coordinates; where they were short enough before they stay."""
    x = np.array(problem.unknowns.first)
    names = [name for block in problem.unknowns.blocks for name in block.names]
    assert with_steps(problem, x, problem.steps()).steps() == problem.steps()
    assert not has_shorter_steps(problem, problem.steps())
    x[names.index("recordings/free/initial/hinge/q")] *= 0.01
    quiet = with_steps(problem, x)
    assert with_steps(quiet, problem.unknowns.first, quiet.steps()).steps()["free"] < quiet.steps()["free"]
    assert with_steps(quiet, problem.unknowns.first, quiet.steps(), 0.02).steps()["free"] == quiet.steps()["free"]


def test_only_what_is_looked_at_says_whether_steps_are_too_long():
    """A single sample too; whatever the motion is elsewhere."""
    elsewhere = np.array([[0.0, 1.0, 1e15], [0.0, np.nan, np.nan]])
    weights = np.array([[1e3, 0.0, 0.0], [0.0, 0.0, 0.0]])
    for change, coarse in ((1e-5, False), (1e-2, True)):
        shows = {1.0: elsewhere, 0.5: elsewhere + change}
        assert is_coarse(1.0, shows.__getitem__, weights) == coarse


@pytest.mark.slow
def test_a_fit_ends_with_steps_for_its_own_motion():
    """From steps that are too long for it: the same end as with those that are short enough from the start."""
    posed = pose(study(("driven",), noise=2e-5))
    long = of_steps(posed, {"driven": 0.02})
    assert posed.steps()["driven"] < long.steps()["driven"]
    one, other = (fit_study(p.study, check=Check((), problem=p)) for p in (posed, long))
    for name, entry in one.parameters.items():
        assert other.parameters[name].estimate == pytest.approx(entry.estimate, rel=1e-7), name


@pytest.mark.slow
def test_steps_of_a_descent_follow_its_motion(tmp_path):
    """From steps that are too long for it: the end is that of shooting, in one course, however often it is stopped."""
    curved = Estimator("gradient_descent", max_iterations=80, optimiser=Optimiser("lbfgs"))
    wanted = fit_study(study(("driven",), noise=2e-5))
    posed = pose(study(("driven",), noise=2e-5, estimator=curved))
    long, file = of_steps(posed, {"driven": 0.02}), tmp_path / "checkpoint.npz"
    whole = fit_study(posed.study, check=Check((), problem=long))
    assert whole.evaluations["iterations"] <= 80
    for name, entry in wanted.parameters.items():
        assert entry.standard_error
        assert abs(whole.parameters[name].estimate - entry.estimate) < 0.1 * entry.standard_error, name

    def interrupt(progress):
        if progress.iteration in (10, 45):
            raise KeyboardInterrupt

    for _ in range(2):
        check = Check((), problem=of_steps(posed, {"driven": 0.02}))
        fit_study(posed.study, check=check, checkpoint=file, resume=True, progress=interrupt)
    check = Check((), problem=of_steps(posed, {"driven": 0.02}))
    again = fit_study(posed.study, check=check, checkpoint=file, resume=True)
    assert again.parameters == whole.parameters


@pytest.mark.parametrize(
    "shown, words",
    [
        (lambda step: np.full((1, 9), np.nan), "runs of the model at the start that fail at once"),
        (lambda step: np.random.default_rng(int(1e6 * step)).normal(size=(1, 9)), "an error of steps that stays above"),
    ],
)
def test_what_no_step_can_follow_is_told_from_what_does_not_run(shown, words):
    given = study()
    with pytest.raises(ModelError, match=f"recordings/free: found {words}"):
        chosen_step(given.data[0], given.model, shown, np.full((1, 9), 1e3))
