"""Actors as TorchScript: what is read acts as torch does, and what is no perceptron is refused by its name."""

from __future__ import annotations

import io
import pickle
import warnings
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

from rookery.policies.imports.actor import as_policy
from rookery.policies.imports.reading import read_actor
from rookery.policies.imports.script_archive import _Unpickler
from rookery.sim.errors import RookeryError
from rookery.sim.untrusted import Damaged

O, D = 6, 2  # noqa: E741

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


def layers(*between: nn.Module, last: tuple[nn.Module, ...] = ()) -> nn.Sequential:
    torch.manual_seed(0)
    first, *others = between or (nn.ELU(),)
    chain = [nn.Linear(O, 8), first]
    for x in others:
        chain += [nn.Linear(8, 8), x]
    return nn.Sequential(*chain, nn.Linear(8, D), *last)


class Normalized(nn.Module):
    """A normalizer, layers and limits in the ways in which libraries write them."""

    def __init__(self, form: int) -> None:
        super().__init__()
        torch.manual_seed(form)
        self.form = form
        self.eps = 0.01
        self.register_buffer("mean", torch.randn(1, O))
        self.register_buffer("std", torch.rand(1, O) + 0.5)
        self.net = layers(nn.Tanh(), nn.Tanh())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        if self.form == 0:  # rsl_rl
            return self.net((obs - self.mean) / (self.std + self.eps))
        if self.form == 1:  # rl_games, skrl
            x = (obs - self.mean) / torch.sqrt(self.std + 1e-5)
            return torch.clamp(self.net(torch.clamp(x, min=-1.5, max=1.5)), -1.0, 1.0)
        if self.form == 2:  # factors before and behind
            return 0.25 * self.net(2.0 * obs.clamp(-100.0, 100.0)) + 0.1
        if self.form == 3:  # in place: what was read before is changed
            y = obs - self.mean
            z = y
            torch.tanh_(self.net[0](y))
            z.mul_(0.5)
            return self.net(y)
        x = (obs * self.std).clamp(-2.0, 2.0)  # a limit amid factors
        return self.net(x * self.mean - 0.3).tanh()


def saved(folder: Path, module: nn.Module, trace: bool, freeze: bool = False) -> Path:
    with warnings.catch_warnings(action="ignore"):
        made = torch.jit.trace(module.eval(), torch.zeros(1, O)) if trace else torch.jit.script(module.eval())
        made = torch.jit.freeze(made) if freeze else made
        made.save(str(folder / "policy.pt"))
    return folder / "policy.pt"


MODULES = {
    "elu": lambda: layers(nn.ELU(), nn.ELU()),
    "relu in place": lambda: layers(nn.ReLU(inplace=True), nn.ReLU()),
    "tanh at the end": lambda: layers(nn.Tanh(), last=(nn.Tanh(),)),
    "limits": lambda: layers(nn.Tanh(), last=(nn.Hardtanh(-100.0, 100.0),)),
    "one layer": lambda: nn.Sequential(nn.Linear(O, D)),
    "dropout and identity": lambda: nn.Sequential(nn.Identity(), layers(nn.Tanh()), nn.Dropout(0.5)),
    "without biases": lambda: nn.Sequential(nn.Linear(O, 8, bias=False), nn.ReLU(), nn.Linear(8, D)),
    **{f"normalizer {i}": lambda i=i: Normalized(i) for i in range(5)},
}


@pytest.mark.parametrize("way", ["scripted", "traced", "frozen"])
@pytest.mark.parametrize("name", MODULES)
def test_acts_as_torch_does(name, way, tmp_path):
    module = MODULES[name]()
    file = saved(tmp_path, module, way == "traced", way == "frozen")
    policy = as_policy(read_actor(file))
    obs = 3.0 * torch.randn(256, O, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        wanted = torch.jit.load(str(file))(obs.clone()).clamp(-1.0, 1.0)
    torch.testing.assert_close(policy(obs), wanted, rtol=1e-5, atol=1e-5)
    assert wanted.std() > 0.01


def test_what_rsl_rl_exports(tmp_path):
    """`OnPolicyRunner.export_policy_to_jit` scripts this module."""
    pytest.importorskip("rsl_rl", reason="the extra `trainers` is not installed")
    from rsl_rl.models import MLPModel
    from tensordict import TensorDict

    obs = {"policy": torch.zeros(1, O)}
    distribution = {"class_name": "GaussianDistribution"}
    model = MLPModel(
        TensorDict(obs, [1]), {"actor": ["policy"]}, "actor", D, (8, 8), "elu", True, distribution_cfg=distribution
    )
    model.update_normalization(TensorDict({"policy": 1.0 + 2.0 * torch.randn(100, O)}, [100]))
    file = saved(tmp_path, model.as_jit(), trace=False)
    rows = 3.0 * torch.randn(64, O)
    wanted = model.eval()(TensorDict({"policy": rows}, [64])).detach().clamp(-1.0, 1.0)
    torch.testing.assert_close(as_policy(read_actor(file))(rows), wanted, rtol=1e-5, atol=1e-5)


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = layers(nn.Tanh())
        self.register_buffer("before", torch.zeros(1, O))

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        out = self.net(obs + self.before)
        self.before = obs
        return out


class Branches(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = layers(nn.Tanh())

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        if float(obs.sum()) > 0.0:
            return self.net(obs)
        return -self.net(obs)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = layers(nn.Tanh())

    def forward(self, obs: torch.Tensor, more: torch.Tensor) -> torch.Tensor:
        return self.net(obs + more)


class Residual(Branches):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs) + obs[:, :2]


class Tuple(Branches):
    def forward(self, obs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.net(obs), obs


class Squares(Branches):
    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        return self.net(obs * obs)


@pytest.mark.parametrize(
    ("module", "said"),
    [
        (Remembers, "keeps a state from step to step, before"),
        (Branches, "it calls float|it calls torch.sum"),
        (Two, "forward takes self, obs, more, not one row"),
        (Residual, "it calls torch.slice|it has an expression"),
        (Tuple, "gives no row of actions"),
        (Squares, "multiplies two results"),
        (lambda: layers(nn.SiLU()), "it calls torch.silu"),
        (lambda: layers(nn.ELU(alpha=0.5)), "an elu with alpha 0.5"),
        (lambda: layers(nn.ELU(), nn.Tanh()), "different activations, elu and tanh"),
        (lambda: layers(nn.ELU(), last=(nn.ELU(),)), "goes on with activation where a perceptron here has ended"),
        (lambda: layers(nn.ELU(), last=(nn.Hardtanh(-0.5, 0.5),)), "goes on with clip"),
        (lambda: nn.Sequential(nn.Linear(O, 8), nn.Linear(8, D)), "two linear layers without an activation"),
        (lambda: nn.Sequential(nn.LayerNorm(O), layers()), "it calls torch.layer_norm"),
        (
            lambda: nn.Sequential(nn.Hardtanh(-1.0, 3.0), layers()),
            "limits its observations to -1 and 3, which are not opposite",
        ),
        (lambda: nn.Sequential(nn.Tanh()), "has no linear layer"),
    ],
)
def test_what_is_no_perceptron_is_refused_by_its_name(module, said, tmp_path):
    with pytest.raises(RookeryError, match=f"is TorchScript and holds no perceptron .*(?:{said})") as e:
        read_actor(saved(tmp_path, module(), trace=False))
    assert "damaged" not in str(e.value)


def test_dropout_that_is_on_is_refused(tmp_path):
    torch.jit.script(nn.Sequential(nn.Dropout(0.5), layers())).save(str(tmp_path / "policy.pt"))
    with pytest.raises(RookeryError, match="dropout that is on: call eval"):
        read_actor(tmp_path / "policy.pt")


# The archive


def changed(file: Path, **entries: bytes) -> Path:
    """The archive with other entries, by their names or those of the pickles with _ for what is no letter."""
    with zipfile.ZipFile(file) as old:
        files = {name: old.read(name) for name in old.namelist()}
    for end, data in entries.items():
        whole = [name for name in files if name == end or name.replace(".", "_").replace("/", "_").endswith(end)]
        files[whole[0]] = data
    with zipfile.ZipFile(file, "w") as new:
        for name, data in files.items():
            new.writestr(name, data)
    return file


class Harm:
    def __init__(self, place: Path) -> None:
        self.place = place

    def __reduce__(self):
        return (Path.touch, (self.place,))


def test_nothing_in_an_archive_is_executed(tmp_path):
    file = changed(saved(tmp_path, layers(), trace=False), _data_pkl=pickle.dumps(Harm(tmp_path / "harm"), 2))
    with pytest.raises(RookeryError, match=r"holds objects of (pathlib|_codecs|__builtin__|builtins)"):
        read_actor(file)
    assert not (tmp_path / "harm").exists()


@pytest.mark.parametrize(
    "body",
    [
        "torch.save(input)",
        "torch.from_file('x')",
        "__import__('os').getcwd()",
        "ops.aten.from_file('x')",
        "open('x')",
    ],
)
def test_code_that_would_do_something_else_is_refused(body, tmp_path):
    file = saved(tmp_path, nn.Sequential(nn.Linear(O, D)), trace=False)
    with zipfile.ZipFile(file) as archive:
        name = next(name for name in archive.namelist() if b"torch.linear(" in archive.read(name))
        code = archive.read(name).decode()
    assert "return torch.linear(input, weight, bias)" in code
    harm = code.replace("return torch.linear", f"{body}\n    return torch.linear").encode()
    with pytest.raises(RookeryError, match=r"holds no perceptron \(it (calls|asks)"):
        read_actor(changed(file, **{name: harm}))


def test_code_that_calls_itself_ends(tmp_path):
    file = saved(tmp_path, nn.Sequential(nn.Linear(O, D)), trace=False)
    with zipfile.ZipFile(file) as archive:
        name = next(name for name in archive.namelist() if b"torch.linear(" in archive.read(name))
        code = archive.read(name).decode()
    endless = code.replace("return torch.linear(input, weight, bias)", "return (self).forward(input, )").encode()
    with pytest.raises(RookeryError, match="calls are nested too deep"):
        read_actor(changed(file, **{name: endless}))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (pickle.dumps({(1, 2): 3}, 2), "key of a dict is no text"),
        (pickle.dumps({3}, 4), "sets"),
        (b"\x80\x02r\xff\xff\xff\x7f.", ""),
        (b"\x80\x02\x8a\xff" + b"\x7f" * 255 + b".", None),
        (b"", ""),
    ],
)
def test_hostile_pickles_end_in_a_word(data, said):
    """A memo of 2^31 entries among them, for which the unpickler in C takes 32 GiB."""
    unpickler = _Unpickler(io.BytesIO(data), lambda name: b"")
    if said is None:
        assert isinstance(unpickler.load(), int)
        return
    with pytest.raises((Damaged, EOFError, IndexError, pickle.UnpicklingError), match=said):
        unpickler.load()


def test_a_tensor_may_not_reach_beyond_its_storage(tmp_path):
    file = saved(tmp_path, nn.Sequential(nn.Linear(O, D)), trace=False)
    with zipfile.ZipFile(file) as archive:
        data = archive.read(next(n for n in archive.namelist() if n.endswith("data.pkl")))
    assert data.count(b"K\x06") >= 2
    with pytest.raises(RookeryError, match="reaches beyond its storage"):
        read_actor(changed(file, _data_pkl=data.replace(b"K\x06", b"K\xf0")))
