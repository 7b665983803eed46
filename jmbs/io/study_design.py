"""The section `design` of a study: an experiment that is to be designed."""

from __future__ import annotations

from jmbs.errors import ModelError
from jmbs.identification import BSpline, Excitation, Multisine, check_excitation
from jmbs.io.study_schema import BasisSection, DesignSection
from jmbs.library.mechanics import show
from jmbs.simulation import Model

KEYS = {"multisine": ("period", "harmonics"), "b_spline": ("coefficients", "degree")}


def read_design(section: DesignSection, model: Model) -> Excitation:
    """The experiment that a section says. Raises `ModelError`."""
    inputs = {path: _basis(f"design/inputs/{path}", given) for path, given in section.inputs.items()}
    keys = ("limits", "duration", "rate", "criterion", "starts", "max_iterations")
    excitation = Excitation(inputs, **{key: getattr(section, key) for key in keys})
    try:
        check_excitation(excitation, model)
    except ModelError as error:
        raise ModelError(f"design/{error.path}", error.found, error.wanted) from None
    return excitation


def _basis(path: str, given: BasisSection) -> Multisine | BSpline:
    values = {key: value for key, value in given.model_dump(exclude={"basis"}).items() if value is not None}
    for key, value in values.items():
        if key not in KEYS[given.basis]:
            wanted = f"{' and '.join(KEYS[given.basis])}, the numbers of a {given.basis}"
            raise ModelError(f"{path}/{key}", show(value), wanted)
    if given.basis == "b_spline":
        return BSpline(**values)
    for key in KEYS["multisine"]:
        if key not in values:
            wanted = {"period": "the period, s", "harmonics": "how many multiples of one over the period"}[key]
            raise ModelError(f"{path}/{key}", "nothing", wanted)
    return Multisine(**values)
