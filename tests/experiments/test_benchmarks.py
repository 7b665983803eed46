"""The benchmarks' pieces: equal mechanisms, the protocol, taking turns, the goals, and the page from the results."""

from __future__ import annotations

import importlib.util
import json
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import jmbs

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))  # the benchmarks are run as modules from the root

from experiments.benchmarks import (  # noqa: E402
    claims,
    environments,
    equality,
    figures,
    kinematics,
    measure,
    mjcf,
    report,
    run,
    run_jmbs,
    tables,
    workarounds,
)
from experiments.benchmarks.cases import Case, Contender, Study  # noqa: E402
from experiments.benchmarks.mechanisms import system_of  # noqa: E402
from experiments.benchmarks.neutral import COORDINATES, RATES  # noqa: E402
from experiments.benchmarks.processes import Worker  # noqa: E402
from experiments.benchmarks.studies import gpu_studies, quick_gpu_studies, quick_studies, studies  # noqa: E402
from jmbs.jaxext import WORKAROUNDS  # noqa: E402

MECHANISMS = [("chain", 8), ("humanoid", 1), ("panda", 1), ("four_bar", 2)]
JMBS = Contender("jmbs", threads=1)
has_mujoco = importlib.util.find_spec("mujoco") is not None


# -- mechanisms -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("mechanism", "size"), MECHANISMS)
def test_links_hang_together(mechanism, size):
    system = system_of(mechanism, size)
    assert len(system.q) == sum(COORDINATES[link.joint] for link in system.links)
    assert len(system.v) == sum(RATES[link.joint] for link in system.links)
    for i, link in enumerate(system.links):
        assert -1 <= link.parent < i
        a, b, c = np.sort(np.linalg.eigvalsh(link.inertia))
        assert 0 < a and c <= a + b
        np.testing.assert_allclose(link.rotation @ link.rotation.T, np.eye(3), atol=1e-15)
        assert np.abs(link.axis).max() == np.abs(link.axis).sum() == 1  # Exudyn's joints have no other axes


def test_the_humanoid_is_what_it_is_called():
    system = system_of("humanoid")
    joints = [link.joint for link in system.links]
    assert (len(joints), len(system.v)) == (20, 29)
    assert {kind: joints.count(kind) for kind in RATES} == {"hinge": 16, "slide": 1, "ball": 2, "free": 1}


def test_windows_stay_closed_when_they_lean():
    system = system_of("four_bar", 3)
    assert len(system.links) == 7
    q = (system.q + 0.3 * system.v)[None]
    centres = kinematics.positions(system, q)[0]
    across, uprights = centres[1::2], centres[::2]
    # Each rod across ends where the next upright does: half of it beyond its centre, which is one upright's top.
    np.testing.assert_allclose(across + [0.5, 0, 0], 2 * uprights[1:] - [[1, 0, 0], [2, 0, 0], [3, 0, 0]], atol=1e-15)


def test_an_unknown_mechanism_is_refused():
    with pytest.raises(ValueError, match="found 'spider', wanted chain"):
        system_of("spider")


def test_members_do_not_depend_on_the_batch():
    system = system_of("humanoid")
    small, large = (kinematics.random_states(system, n) for n in (2, 5))
    for a, b in zip(small, large, strict=True):
        np.testing.assert_array_equal(a, b[:2])
    quaternions = small[0][:, system.slices(COORDINATES)[0]][:, 3:]
    np.testing.assert_allclose(np.linalg.norm(quaternions, axis=1), 1)


def test_quaternions_and_rotations():
    for wxyz in [*np.random.default_rng(0).standard_normal((5, 4)), np.eye(4)[1]]:
        R = kinematics.rotation(wxyz)
        np.testing.assert_allclose(kinematics.rotation(kinematics.quaternion(R)), R, atol=1e-15)


def test_states_to_mujoco_and_back():
    system = system_of("humanoid")
    q, v = kinematics.random_states(system, 3)
    qpos, qvel = mjcf.to_mujoco(system, q, v)
    assert not np.allclose(qvel, v)
    for there, here in zip(mjcf.from_mujoco(system, qpos, qvel), (q, v), strict=True):
        np.testing.assert_allclose(there, here, atol=1e-15)


def test_principal_axes_make_up_the_inertia():
    for link in system_of("panda").links:
        moments, axes = mjcf._principal(link.inertia)
        assert np.linalg.det(axes) == pytest.approx(1)
        turned = kinematics.rotation(kinematics.quaternion(axes))
        np.testing.assert_allclose(turned @ np.diag(moments) @ turned.T, link.inertia, atol=1e-15)


# -- codes ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_jmbs_starts_where_the_numbers_say():
    """Two roads to the centres of mass: the benchmarks' own kinematics, and jmbs's bodies."""
    system = system_of("panda")
    q, v = kinematics.random_states(system, 1)
    model = jmbs.compile(run_jmbs.mechanism_of(system))
    state = run_jmbs.initial_states(model, system, q, v)
    start = [np.asarray(jmbs_position(model, state, link.name)) for link in system.links]
    np.testing.assert_allclose(start, kinematics.positions(system, q)[0], atol=1e-12)


def jmbs_position(model, state, body):
    """A body's position in the first state of a run."""
    one = jax.tree.map(lambda leaf: leaf[0], state)
    return jmbs.simulate(model, one, ts=[0.0], t1=0.0, audit=False, solver="rk4", dt=1e-3).position[body][0]


@pytest.mark.slow
@pytest.mark.skipif(not has_mujoco, reason="MuJoCo is not installed")
@pytest.mark.parametrize(("mechanism", "size"), [("chain", 2), ("humanoid", 1), ("panda", 1)])
def test_jmbs_and_mujoco_accelerate_alike(mechanism, size):
    from experiments.benchmarks import run_mujoco

    system = system_of(mechanism, size)
    q, v, own = run_jmbs.accelerations(system, *kinematics.random_states(system, 2))
    _, _, other = run_mujoco.accelerations(system, q, v)
    assert np.abs(own - other).max() < 1e-9 * np.abs(own).max()


@pytest.mark.skipif(not has_mujoco, reason="MuJoCo is not installed")
def test_jmbs_and_mujoco_move_alike():
    """The same method and steps: in joint coordinates of hinges the same numbers, up to rounding and jmbs's charts."""
    from experiments.benchmarks import run_mujoco

    case = Case("chain", 2, batch=3, steps=40, dt=1e-3, threads=1)
    ends = []
    for code in (run_jmbs, run_mujoco):
        prepared = code.prepare(case)
        end = prepared.final(prepared.run())
        assert end is not None
        ends.append(end)
    for own, other in zip(*ends, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-9)


def test_naive_derivatives_are_never_pretended():
    with pytest.raises(run_jmbs.Unsupported, match="derivative backwards"):
        run_jmbs.prepare(Case("chain", 1, derivative="backwards"))


# -- protocol ---------------------------------------------------------------------------------------------------------


def test_a_worker_answers_and_survives_what_it_cannot_do(tmp_path):
    worker = Worker(JMBS, sys.executable, tmp_path)
    try:
        assert "jax" in worker.ask({"do": "describe"}, 120)
        assert "assert" in worker.ask({"do": "run"}, 60)["error"].lower()
        assert "found 'dance'" in worker.ask({"do": "dance"}, 60)["error"]
        asked = {"do": "prepare", "case": asdict(Case("chain", 1, derivative="backwards"))}
        assert worker.ask(asked, 120) == {"missing": "derivative backwards"}
    finally:
        worker.close()


def test_a_worker_that_does_not_answer_is_missing(tmp_path):
    worker = Worker(JMBS, sys.executable, tmp_path)
    assert worker.ask({"do": "describe"}, 0.01) == {"missing": "no answer to describe within 0.01 s"}
    assert worker.ask({"do": "run"}, 60) == worker.dead


def test_a_worker_that_cannot_start_says_so(tmp_path):
    worker = Worker(Contender("no_such_code"), sys.executable, tmp_path)
    assert worker.ask({"do": "describe"}, 60) == {"error": "the worker ended with status 1"}


def test_an_interpreter_that_is_not_there_is_missing(tmp_path):
    with pytest.raises(environments.Missing, match="does not start: No such file"):
        Worker(JMBS, str(tmp_path / "python"), tmp_path)


def test_an_environment_that_cannot_be_made_is_missing(tmp_path, monkeypatch):
    monkeypatch.setitem(environments.PACKAGES, "mujoco", ("not a requirement",))

    def with_this_python(home: Path, **_: Any) -> None:
        (home / "bin").mkdir(parents=True)
        (home / "bin" / "python").symlink_to(sys.executable)

    monkeypatch.setattr(environments.venv, "create", with_this_python)
    with pytest.raises(environments.Missing, match="pip install not a requirement failed"):
        environments.interpreter("mujoco", tmp_path, False, {})
    assert environments.interpreter("mujoco", tmp_path, False, {"mujoco": "mine"}) == "mine"
    assert environments.interpreter("jmbs", tmp_path, False, {}) == sys.executable


# -- measuring --------------------------------------------------------------------------------------------------------


class Toy:
    """A worker whose runs take as many seconds as its code's name says, and which writes down when it was asked."""

    def __init__(self, contender: Contender, log: list[str]):
        self.code, self.log = contender.code, log

    def ask(self, request: dict[str, Any], limit: float) -> dict[str, Any]:
        self.log.append(f"{request['do']} {self.code}")
        if request["do"] == "prepare":
            return (
                {"missing": "not today"} if self.code == "lazy" else {"compile_s": 1.0, "q": [[float(self.code)] * 2]}
            )
        return {"seconds": float(self.code)}

    def close(self) -> None:
        self.log.append(f"close {self.code}")


def toy_study() -> tuple[dict[str, Any], list[str]]:
    log: list[str] = []

    def start(contender: Contender) -> Any:
        if contender.code == "absent":
            raise environments.Missing("not installed")
        return Toy(contender, log)

    contenders = tuple(Contender(code) for code in ("1.0", "lazy", "absent", "2.0"))
    study = Study("batches", (Case("chain", 2, batch=10, steps=5),), contenders, repeats=2)
    return next(iter(measure.measure(study, start, 1.0))), log


def test_codes_take_turns():
    _, log = toy_study()
    assert log == [
        *["prepare 1.0", "prepare lazy", "prepare 2.0", "run 1.0", "run 2.0", "run 1.0", "run 2.0"],
        *["close 2.0", "close lazy", "close 1.0"],
    ]


def test_rows_say_what_was_measured_and_what_is_missing():
    result, _ = toy_study()
    first, lazy, absent, second = result["rows"]
    assert (first["steps_per_second"], second["steps_per_second"]) == (50.0, 25.0)
    assert first["seconds"] == [1.0, 1.0] and first["quartiles_s"] == [1.0, 1.0, 1.0]
    assert first["distance_m"] == 0.0 < second["distance_m"]
    assert (lazy["missing"], absent["missing"]) == ("not today", "not installed")
    text = tables.throughput(result)
    assert "not today" in text and "not installed" in text


def unused(contender: Contender) -> Any:
    raise AssertionError(f"{contender.name} was started")


def test_the_reference_is_never_the_judged_code(monkeypatch):
    """Truth is (0.1, 0.2) by MuJoCo, jmbs is off, Exudyn is not there; steps of the two references differ."""
    asked = {}

    def final(contender, case, start, limit):
        asked[contender.code] = case
        found = {"mujoco": [[0.1, 0.2]], "jmbs": [[0.1, 0.3]]}
        return {"q": found[contender.code]} if contender.code in found else {"missing": "not there"}

    monkeypatch.setattr(measure, "_final", final)
    found = measure.reference(Case("chain", 2, steps=10, dt=0.025), unused, 1.0)
    assert found["q"] == [[0.1, 0.2]]
    assert found["exudyn_m"] == "not there"
    assert found["jmbs_m"] == pytest.approx(0.5 * np.sin(0.05), rel=1e-6)  # half the chord of 0.1 rad on 0.25 m
    assert asked["exudyn"].steps != asked["mujoco"].steps
    assert all(case.steps * case.dt == pytest.approx(0.25) for case in asked.values())


def test_different_mechanisms_stop_the_run(monkeypatch):
    def ask(contender, case, q, v, start, limit):
        return {"q": q, "v": v, "acceleration": [[1.0, 2.0 + (2.2e-9 if contender.code == "exudyn" else 0.0)]]}

    monkeypatch.setattr(equality, "_ask", ask)
    with pytest.raises(equality.Different, match="exudyn and jmbs: found accelerations that differ by 1.1e-09"):
        equality.check((Case("chain", 2),), ("mujoco", "exudyn"), unused, 1.0)
    assert len(equality.check((Case("chain", 2),), ("mujoco", "mjx"), unused, 1.0)) == 2


def test_studies_are_named_as_the_command_takes_them(capsys):
    for made in (studies(), quick_studies(), gpu_studies(), quick_gpu_studies()):
        assert all(name == study.name and study.repeats >= 3 for name, study in made.items())
    with pytest.raises(SystemExit):
        run.main(["--only", "everything"])
    assert "found 'everything', wanted some of: one mechanism" in capsys.readouterr().err


@pytest.mark.slow
def test_a_quick_run_without_the_other_codes(tmp_path, monkeypatch):
    others = [f"{code}={sys.executable}-not-there" for code in environments.PACKAGES]
    options = ["--quick", "--only", "batches", "--no-report", "--out", str(tmp_path), "--use", *others]
    monkeypatch.setattr(equality, "QUICK_CASES", equality.QUICK_CASES[:1])
    result = run.main(options)
    assert json.loads(next(tmp_path.glob("*.json")).read_text(encoding="utf-8")) == result
    assert set(result["missing"]) == set(environments.PACKAGES) - {"warp"}
    (case,) = result["studies"]["batches"]["cases"]
    assert case["rows"][0]["steps_per_second"] > 0
    assert all("missing" in row for row in case["rows"][1:])


# -- report -----------------------------------------------------------------------------------------------------------


def row(contender: Contender, seconds: float, case: Case, **more: Any) -> dict[str, Any]:
    figures = {"quartiles_s": [seconds] * 3, "steps_per_second": case.batch * case.steps / seconds}
    return {"name": contender.name, "contender": asdict(contender), "trace_s": 1.0, "compile_s": 1.0, **figures, **more}


def synthetic() -> dict[str, Any]:
    """A result with the sizes that the goals speak of: C MuJoCo takes 1 s, jmbs 2 s, in float32 0.5 s."""
    many, mujoco, single = (
        Case("chain", 8, batch=256),
        Contender("mujoco", threads=1),
        replace(JMBS, precision="float32"),
    )
    rows = [row(JMBS, 2.0, many), row(single, 0.5, many), row(mujoco, 1.0, many)]
    grown = []
    for n in (8, 128):
        case = Case("chain", n)
        grown.append({"case": asdict(case), "rows": [row(JMBS, 0.1 * n, case, trace_s=0.1 * n)]})
    differentiated = [replace(JMBS, derivative=kind) for kind in ("none", "reverse", "naive")]
    case = Case("humanoid", batch=64)
    memory = [row(c, 1.0 + i, case, memory_bytes=10**i) for i, c in enumerate(differentiated)]
    sections = {
        "batches": [{"case": asdict(many), "rows": rows}],
        "growth": grown,
        "gradients": [{"case": asdict(case), "rows": memory}],
    }
    made = {
        n: {"quick": False, "date": "2026-01-01", "repeats": 3, "versions": {}, "cases": cases}
        for n, cases in sections.items()
    }
    facts = {"name": "A machine", "memory_GiB": 1, "system": "Linux", "python": "3.11"}
    versions = {"jmbs": {"jax": "1"}}
    return {"hardware": facts, "studies": made, "versions": versions, "missing": {"exudyn": "none"}, "equality": []}


def test_goals_are_computed_from_the_rows():
    found = {claim.text: claim.cells() for claim in claims.claims(synthetic())}
    assert found["chain8, batch 256, 1 thread: jmbs float64 / C MuJoCo"][1:4] == ["0.500", ">= 1", "no"]
    assert found["chain8, batch 256, 1 thread: jmbs float32 / C MuJoCo"][1:4] == ["2.00", ">= 1.5", "yes"]
    assert found["chain8, batch 256, all threads: jmbs float32 / C MuJoCo"][1:4] == ["-", ">= 1.5", "not measured"]
    assert found["chain of 128 / chain of 8, batch 1: time per step"][1:4] == ["16.0", "<= 20", "yes"]
    assert found["chain of 128, batch 1: compile time, s"][1:4] == ["13.8", "< 10", "no"]
    place = "humanoid, 100 steps: reverse gradient"
    assert found[f"{place} / forward run, time"][1:4] == ["2.00", "<= 3", "yes"]
    assert found[f"{place} / naive reverse mode, memory"][1:4] == ["0.100", "<= 0.1", "yes"]


def test_a_page_from_any_result(tmp_path):
    result = synthetic()
    text = report.page({"machine": result})
    assert "Not taken part: exudyn, none" in text
    assert figures.draw(result, tmp_path) == ["growth.png"]
    assert (tmp_path / "growth.png").stat().st_size > 1000


def test_rate_at_equal_accuracy():
    points = [(1e-2, 1000.0), (1e-4, 100.0), (1e-6, 10.0)]
    assert tables.rate_at(points, 1e-5) == pytest.approx(10**1.5)
    assert tables.rate_at(points, 1e-9) is None
    assert tables.rate_at(points, 1.0) == 1000.0
    rounding = [(1e-7, 1000.0), (1e-5, 100.0)]
    assert tables.rate_at(rounding, 1e-6) == 1000.0


def test_numbers_for_people():
    shown = [tables.number(x) for x in (None, 0.0, 0.012345, 1.2345, 123456.0, 1.2e9)]
    assert shown == ["-", "0", "0.0123", "1.23", "123,000", "1.20e+09"]


def test_the_table_of_workarounds_is_the_one_that_was_measured():
    assert f"<!-- workarounds -->\n{workarounds.text()}<!-- end -->" in workarounds.PAGE.read_text(encoding="utf-8")
    assert set(json.loads(workarounds.RESULT.read_text())["chain"]) == {*WORKAROUNDS, "all"}


def test_the_page_is_the_one_that_the_results_make():
    results = report.load(report.HERE / "results")
    assert report.PAGE.read_text(encoding="utf-8") == report.page(results)
    for name, result in results.items():
        for file, _ in figures.figures_of(result):
            assert (report.HERE / "figures" / name / file).is_file()
