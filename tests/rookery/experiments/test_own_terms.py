"""A task of one's own is trained on what its contract says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rookery.cli.main import main
from rookery.experiments.own_terms import refuse_other_terms
from rookery.sim.errors import RookeryError

TASK = """from rookery.sim.quantities import POSITION, body, place
from rookery.sim.specs import Group, Term
from rookery.tasks.drones.hover import Hover


class Own(Hover):
    \"\"\"Hover, by terms of its own.\"\"\"

    name = "own"

    def groups(self):
        target = Term("target", body(place("target") - POSITION))
        return {"drone": Group(self.cfg.num_drones, (target, *self.body_terms()), self.action)}

    def observe(self):
        return {"drone": self.observe_body({"target": self.target})}
"""


def own(folder: Path, change: Callable[[str], str] = lambda text: text) -> str:
    """Name of the task in a file of its own."""
    folder.mkdir()
    (folder / "own.py").write_text(change(TASK))
    return f"{folder / 'own.py'}:Own"


CHANGES: dict[str, Callable[[str], str]] = {
    "sign": lambda text: text.replace("self.target}", "-self.target}"),
    "of the step before": lambda text: text.replace(
        "self.target})", "self.target}) | {'last_action': 0 * self.last_action}"
    ),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_term_that_is_not_its_expression_is_refused_before_training(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A flip that training does not mind, and the robot does; and one that shows only once the agents act."""
    refuse_other_terms(own(tmp_path / "right"), None, {})
    wrong = own(tmp_path / "wrong", CHANGES[what])
    with pytest.raises(RookeryError, match=r"of group 'drone' of .* is not what its expression says, .*: observe"):
        refuse_other_terms(wrong, None, {})
    out = tmp_path / "run"
    assert main(["train", wrong, "--num-envs", "4", "--minibatches", "1", "--steps", "64", "--out", str(out)]) == 2
    assert "is not what its expression says" in capsys.readouterr().err and not out.exists()


def test_what_is_not_measured_is_not_compared(tmp_path: Path) -> None:
    hidden = own(
        tmp_path / "own", lambda text: CHANGES["sign"](text) + "\n    def measured(self):\n        return {}\n"
    )
    refuse_other_terms(hidden, None, {})
