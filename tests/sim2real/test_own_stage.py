"""A policy with a stage from a file of the user's own, exported and checked as any other."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from rookery.policies.policy import Policy
from rookery.policies.stages import encoder_class
from rookery.policies.stages.chain import Link
from rookery.policies.stages.standard import standard
from rookery.sim.errors import RookeryError
from rookery.sim.trust import remember
from rookery.sim2real.build import build_contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.check import check_bundle
from tests.policies.stages.test_own_stage import example
from tests.sim2real.conftest import make_env


def exported(folder: Path, old: str = "", new: str = "") -> Path:
    """The bundle of a policy with the page's stage, in which a text is changed."""
    assert old in example()
    file = folder / "gain.py"
    file.write_text(example().replace(old, new) if old else example())
    remember(f"{file}:Gain")
    gain: Link = encoder_class(f"{file}:Gain")(15, 1.0)  # type: ignore[call-arg]
    policy = Policy(standard(15, 3, (16,), encoder=[gain]))
    policy.initialize(torch.Generator().manual_seed(0))
    with torch.no_grad():
        policy.get_parameter("gain.gain").uniform_(0.5, 1.5)
    contract = build_contract(make_env(), {"drone": policy})
    return export_bundle({"drone": policy}, contract, folder / "bundle")


def test_its_c_and_onnx_are_those_of_torch(tmp_path: Path) -> None:
    errors = check_bundle(exported(tmp_path))
    assert 0.0 < errors["onnx_max_error"] < 1e-5
    assert 0.0 < errors["c_max_error"] < 1e-5


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "_gain[i] * in[i]",
            "_gain[i] + in[i]",
            r"differs from the torch policy .* Its stage gain is none of Rookery's",
        ),
        (
            "* in[i];",
            "* in[i]",
            r"does not compile \(line \d+\).* compare what its code\(\) writes with its forward\(\)",
        ),
    ],
)
def test_wrong_c_of_it_is_its_own_fault(old: str, new: str, message: str, tmp_path: Path) -> None:
    bundle = exported(tmp_path, old, new)
    with pytest.raises(RookeryError, match=message):
        check_bundle(bundle)


def test_a_helper_that_there_is_not_is_named(tmp_path: Path) -> None:
    with pytest.raises(RookeryError, match="unknown helper of a stage's C 'dens': did you mean 'dense'"):
        exported(tmp_path, "    def code(", '    helpers = ("dens",)\n\n    def code(')


def test_a_network_without_c_is_refused_with_a_way_that_is_open(tmp_path: Path) -> None:
    """Its whole bundle cannot be written, so the check of its ONNX does not send anybody there."""
    file = tmp_path / "net.py"
    file.write_text("import torch\n\n\ndef make(inputs, outputs):\n    return torch.nn.Linear(inputs, outputs)\n")
    remember(f"{file}:make")
    policy = Policy(standard(15, 3, module=f"{file}:make"))
    policy.initialize(torch.Generator().manual_seed(0))
    contract = build_contract(make_env(), {"drone": policy})
    network = export_bundle({"drone": policy}, contract, tmp_path / "network", target="onnx")
    with pytest.raises(RookeryError):
        export_bundle({"drone": policy}, contract, tmp_path / "bundle")
    with pytest.raises(RookeryError, match="rookery gate RUN") as refused:
        check_bundle(network)
    assert "--target" not in str(refused.value)
