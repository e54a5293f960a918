"""Stages from outside the package: in a file, or an entry point; trusted, checked, and stored like all others."""

from __future__ import annotations

import dataclasses
import re
import sys
from pathlib import Path
from typing import Literal

import pytest
import torch

from rookery.policies import stages
from rookery.policies.algorithms.chains import encoder_links, policy_chains
from rookery.policies.algorithms.ppo_config import PPOConfig
from rookery.policies.policy import Policy
from rookery.policies.stages.chain import StageChain
from rookery.policies.stages.part import module_of
from rookery.policies.stages.perceptron import Perceptron
from rookery.policies.stages.standard import standard
from rookery.sim.errors import RookeryError
from rookery.sim.trust import remember
from tests.policies.policies_stages import group_of

DOCS = Path(__file__).parents[3] / "docs" / "stages.md"
GROUP = group_of(3, 2)


def example() -> str:
    """The stage of the page."""
    return DOCS.read_text().partition("cat > gain.py <<'END'\n")[2].partition("\nEND\n")[0] + "\n"


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PPOConfig:
    """Settings that name the page's stage, in a file that nobody has trusted."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("rookery.sim.trust._here", set())
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "gain.py").write_text(example())
    return PPOConfig(encoder=f"{tmp_path / 'gain.py'}:Gain", encoder_options=("first=0.5",))


def edit(config: PPOConfig, old: str, new: str) -> None:
    """Change the stage's file, and trust it."""
    file = Path(config.encoder.partition(":")[0])
    text = re.sub(old, new, example())
    assert text != example()
    file.write_text(text)
    remember(config.encoder)


def test_a_file_runs_only_where_it_is_trusted(config: PPOConfig) -> None:
    stored = [{"stage": config.encoder, "formula": "gain x, number by number", "size": 3, "first": 0.5}]
    for read in (lambda: encoder_links(config, GROUP, 1), lambda: StageChain.from_json(stored)):
        with pytest.raises(RookeryError, match=r"the stored stage is .*gain.py:Gain.*--trust-task"):
            read()
    file = Path(config.encoder.partition(":")[0])
    assert not [m for m in sys.modules.values() if getattr(m, "__file__", None) == str(file)]
    remember(config.encoder)
    assert StageChain.from_json(stored).to_json() == stored


def test_it_computes_and_comes_back_from_its_json(config: PPOConfig) -> None:
    remember(config.encoder)
    policy = Policy([*encoder_links(config, GROUP, 1), Perceptron(3, (), 3, "tanh")])
    policy.initialize()
    again = Policy(StageChain.from_json(policy.to_json()).links)
    again.load_state_dict(policy.state_dict())
    x = torch.randn(5, 3)
    weight, bias = (policy.state_dict()[f"perceptron.{k}_0"] for k in ("weight", "bias"))
    assert torch.allclose(again(x), 0.5 * x @ weight.T + bias, atol=1e-6)
    assert "gain.gain" in policy.state_dict()


def test_kinds_of_this_package_are_read_without_asking_installed_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    links = tuple(standard(3, 2))
    stored = Policy(links).to_json()
    monkeypatch.setattr(stages, "entry_points", lambda group: pytest.fail("it looked through all packages"))
    assert StageChain.from_json(stored).links == links


def test_an_entry_point_has_the_name_of_its_kind(config: PPOConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    points = {"gain": "gain:Gain", "other": "gain:Gain", "lost": "gain:Loss"}
    monkeypatch.setattr(stages, "entry_points", lambda group: points)
    (link,) = encoder_links(PPOConfig(encoder="gain", encoder_options=("first=2.0",)), GROUP, 1)
    stored = Policy([link]).to_json()
    assert stored[0]["stage"] == "gain"
    assert StageChain.from_json(stored).links == (link,)
    with pytest.raises(RookeryError, match="has the kind 'gain': give its entry point that name instead of 'other'"):
        stages.stage_class("other")
    with pytest.raises(
        RookeryError, match=r"'lost' of an installed package fails to load from gain:Loss .*uninstall that package"
    ):
        stages.stage_class("lost")
    del sys.modules["gain"]


WRONG = {
    "no dataclass": (r"@dataclass\(frozen=True\)\nclass Gain\(", "class Gain(", "is no dataclass: write @dataclass"),
    "no kind": ('    kind: ClassVar.str. = "gain"\n', "", "has no kind: write one into the class"),
    "a kind that is taken": ('= "gain"', '= "gru"', "has the kind 'gru': choose a name"),
    "no stage": (r"class Gain\(Encodes\)", "class Gain", "is no stage: give a class that derives from"),
    "no encoder": (r"def encoder\(", "def encodes(", r"gain has no encoder\(\): write the class method into Gain"),
    "an option": (
        "    first: float = 1.0",
        "    last: float = 1.0",
        r"unknown option of encoder=.*gain.py:Gain 'first'",
    ),
    "a size": (r"group.frame_size \* frames", "0", "size of the stage gain is 0"),
    "no list": (
        r"return \[(cls\(.*\))\]",
        r"return \1",
        r"encoder\(\) of Gain gave Gain\(size=3, .*: give a list of stages",
    ),
    "other inputs": (
        r"group.frame_size \* frames",
        "2",
        "Gain gave a stage of 2 inputs, and the observation has 3 numbers",
    ),
    "no outputs": (
        r"(def outputs\(self\):\n        return) self.size",
        r"\1 self.size - 5",
        "3 inputs and -2 outputs: give options",
    ),
    "other outputs": (
        r'weights\["gain"\] \* x',
        'weights["gain"][1:] * x[:, 1:]',
        r"gain.py:Gain gives torch.float32 \(3, 2\) as its output for 3 rows, which must be torch.float32 \(3, 3\)",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_class_that_cannot_be_is_refused(name: str, config: PPOConfig) -> None:
    old, new, message = WRONG[name]
    edit(config, old, new)
    with pytest.raises(RookeryError, match=message):
        modules(config)


@pytest.mark.parametrize("memory", ["none", "gru"])
def test_a_memory_in_an_encoder_is_not_trained(memory: Literal["none", "gru"], config: PPOConfig) -> None:
    """It would be learned as if each step were an episode's first."""
    edit(
        config,
        r"return \[cls\(.*\)\]",
        "from rookery.policies.stages.gru import GRU\n        return [GRU(3 * frames, 4)]",
    )
    with pytest.raises(
        RookeryError, match=r"gain.py:Gain gave a stage with a state, GRU, .*take that GRU \(--memory gru\)"
    ):
        policy_chains(dataclasses.replace(config, memory=memory), GROUP)


def modules(config: PPOConfig) -> list[torch.nn.Module]:
    """Of the stages that a network with this encoder has."""
    return [module_of(leaf.stage) for leaf in StageChain(tuple(encoder_links(config, GROUP, 1))).leaves]


def test_options_may_be_left_out(config: PPOConfig) -> None:
    edit(config, r"    Options: .*\n", "")
    with pytest.raises(
        RookeryError, match=r"encoder_options has 'first=0.5', and encoder=.*gain.py:Gain has no options"
    ):
        encoder_links(config, GROUP, 1)


def test_a_stage_without_options_is_made_of_its_terms_alone(config: PPOConfig) -> None:
    edit(config, r"    Options: .*\n((?s:.*))options.first", r"\g<1>1.0")
    (link,) = encoder_links(PPOConfig(encoder=config.encoder), GROUP, 1)
    assert (link.inputs, link.outputs) == (3, 3)


def test_the_check_draws_no_number_of_a_training(config: PPOConfig) -> None:
    remember(config.encoder)
    torch.manual_seed(0)
    encoder_links(config, GROUP, 1)
    drawn = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1))


def test_a_method_that_is_missing_is_named(config: PPOConfig) -> None:
    edit(config, r"def (code|forward)\(", r"def \1_(")
    links = encoder_links(config, GROUP, 1)
    with pytest.raises(RookeryError, match=r"the stage gain has no forward\(\): write it into Gain"):
        Policy(links)
    with pytest.raises(RookeryError, match=r"the stage gain has no code\(\): .* the reason why it has no C"):
        links[0].code("p")


FORWARD = r'return weights\["gain"\] \* x'
STATE = """    @property
    def state_size(self):
        {body}

    def weights("""
BREAKS = {
    "too narrow": (
        FORWARD,
        "return x[:, :-1]",
        r"torch.float32 \(3, 2\) as its output for 3 rows, which must be .* \(3, 3\)",
    ),
    "one row": (FORWARD, "return x[:1]", r"\(1, 3\) as its output"),
    "flat": (FORWARD, "return x.flatten()", r"\(9,\) as its output"),
    "double": (FORWARD, "return x.double()", r"gives torch.float64 \(3, 3\)"),
    "nothing": (FORWARD, "return None", "gives a NoneType as its output"),
    "numpy": (FORWARD, "return x.numpy()", "gives a ndarray as its output"),
    "nan": (FORWARD, "return x / 0", "gives NaN or infinity for numbers from -1 to 1"),
    "raises": (FORWARD, "return 1 / 0", r"fails for rows \[3, 3\] \(ZeroDivisionError: division by zero\)"),
    "no such weight": (FORWARD, 'return weights["gian"]', r"fails for rows \[3, 3\] \(KeyError: 'gian'\)"),
    "in place": (FORWARD, "return x.mul_(2.0)", "writes into its input"),
    "remembers": (FORWARD, "N.append(1)\n        return x * len(N)", "gives something else when it is asked again"),
    "draws": (FORWARD, "return x * torch.rand(1)", "gives something else when it is asked again"),
    "mixes rows": (FORWARD, "return x - x.mean(0)", "something else for a row alone than beside others"),
    "other sizes": (
        r"    def weights\(",
        STATE.format(body="N.append(1)\n        return len(N)"),
        "something else of its sizes",
    ),
    "a state that is not kept": (
        FORWARD,
        "return x",
        r"gives torch.float32 \(3, 1\) as its next state",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_stage_that_breaks_the_interface_is_refused_before_it_learns(name: str, config: PPOConfig) -> None:
    old, new, message = BREAKS[name]
    edit(config, old, new.replace("\\", r"\\"))
    file = Path(config.encoder.partition(":")[0])
    text = "import torch\nN = []\n" + file.read_text()
    if name == "a state that is not kept":
        step = "    def step(self, weights, x, state, given):\n        return x, state[:, :1]\n\n"
        text = text.replace(
            "    def weights(", STATE.format(body="return 2").replace("    def weights(", f"{step}    def weights(")
        )
    file.write_text(text)
    with pytest.raises(RookeryError, match=rf"the stage .*gain.py:Gain .*{message}"):
        Policy(encoder_links(config, GROUP, 1))


def test_a_weight_without_numbers_is_refused(config: PPOConfig) -> None:
    edit(config, r"Weight\(\(self.size,\)\)", "Weight((self.size, -1))")
    with pytest.raises(RookeryError, match=r"gain of the stage gain has the shape \(3, -1\): give sizes of at least 1"):
        Policy(encoder_links(config, GROUP, 1))


@pytest.mark.parametrize(
    ("encoder", "message"),
    [
        ("gain.py", "'gain.py' is a file: name the class in it, too, as gain.py:MyClass"),
        ("attentoin", "unknown encoder 'attentoin': did you mean 'attention'"),
        ("gru", "unknown encoder 'gru'"),
    ],
)
def test_other_names_are_refused_when_they_are_read(encoder: str, message: str) -> None:
    with pytest.raises(RookeryError, match=message):
        PPOConfig(encoder=encoder)
