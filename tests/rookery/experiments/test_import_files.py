"""Files of actors, made here number by number: what is read of them, and that nothing is left out without a word."""

from __future__ import annotations

import io
import json
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rookery
from rookery.cli.main import main
from rookery.experiments.runs import open_run
from rookery.policies.imports.actor import NO_LIMIT, as_policy, read_normalizer
from rookery.policies.imports.reading import read_actor
from rookery.sim.errors import RookeryError

TASK = "drone-hover"
OWN_CLASS = {
    "__module__": "stable_baselines3.common.policies",
    "__init__": "<function ActorCriticPolicy.__init__ at 0x1>",
}
INPUTS, OUTPUTS = 16, 4


def linear(prefix: str, inputs: int, outputs: int) -> dict[str, torch.Tensor]:
    return {f"{prefix}.weight": 0.3 * torch.randn(outputs, inputs), f"{prefix}.bias": torch.randn(outputs)}


def net(prefix: str = "net", sizes: tuple[int, ...] = (INPUTS, 8, OUTPUTS)) -> dict[str, torch.Tensor]:
    """Linear layers 0, 2, 4, ... with activations between them."""
    torch.manual_seed(0)
    out = {}
    for i, (inputs, outputs) in enumerate(zip(sizes[:-1], sizes[1:], strict=True)):
        out |= linear(f"{prefix}.{2 * i}", inputs, outputs)
    return out


def forward(weights: dict[str, torch.Tensor], prefix: str, obs: torch.Tensor, count: int) -> torch.Tensor:
    """What relu layers give."""
    for i in range(count):
        obs = obs @ weights[f"{prefix}.{2 * i}.weight"].T + weights[f"{prefix}.{2 * i}.bias"]
        obs = obs.relu() if i < count - 1 else obs
    return obs


def skrl(folder: Path, policy: dict[str, Any], **others: Any) -> Path:
    torch.save({"policy": policy, **others}, folder / "agent_8.pt")
    return folder / "agent_8.pt"


def rsl_rl(folder: Path, actor: dict[str, Any]) -> Path:
    torch.save({"actor_state_dict": actor}, folder / "model_8.pt")
    return folder / "model_8.pt"


def rsl_rl_3(folder: Path, model: dict[str, Any], **others: Any) -> Path:
    torch.save({"model_state_dict": model, **others}, folder / "model_8.pt")
    return folder / "model_8.pt"


def saved(folder: Path, checkpoint: dict[str, Any]) -> Path:
    torch.save(checkpoint, folder / "model.pth")
    return folder / "model.pth"


def rl_games(folder: Path, more: dict[str, Any] | None = None) -> Path:
    layers = net("a2c_network.actor_mlp", (INPUTS, 8)) | linear("a2c_network.mu", 8, OUTPUTS)
    beside = {"a2c_network.sigma": torch.zeros(OUTPUTS)} | linear("a2c_network.value", 8, 1)
    torch.save({"model": layers | beside | (more or {})}, folder / "hover.pth")
    return folder / "hover.pth"


def rl_games_sac(actor: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"actor": actor, "critic": {}, "critic_target": {}} | more


def sb3(folder: Path, weights: dict[str, Any], compression: int = zipfile.ZIP_STORED, **about: Any) -> Path:
    """An archive as the library writes it; the policy's class follows from the weights."""
    kind = "sac" if "actor.mu.weight" in weights else "td3" if "actor.mu.0.weight" in weights else ""
    if kind:
        own = {
            "__module__": f"stable_baselines3.{kind}.policies",
            "__init__": f"<function {kind.upper()}Policy.__init__ at 0x1>",
        }
        about = {"policy_class": own} | about
    packed = io.BytesIO()
    torch.save(weights, packed)
    with zipfile.ZipFile(folder / "model.zip", "w", compression) as archive:
        archive.writestr("policy.pth", packed.getvalue())
        archive.writestr("data", json.dumps({"policy_class": OWN_CLASS, **about}))
    return folder / "model.zip"


def ppo(**more: torch.Tensor) -> dict[str, torch.Tensor]:
    layers = net("mlp_extractor.policy_net", (INPUTS, 8)) | linear("action_net", 8, OUTPUTS)
    critic = linear("mlp_extractor.value_net.0", INPUTS, 8) | linear("value_net", 8, 1)
    return layers | critic | {"log_std": torch.zeros(OUTPUTS)} | more


def sac() -> dict[str, torch.Tensor]:
    layers = net("actor.latent_pi", (INPUTS, 8)) | linear("actor.mu", 8, OUTPUTS)
    return layers | linear("actor.log_std", 8, OUTPUTS) | {"critic.qf0.0.weight": torch.zeros(8, 20)}


def scaler(**more: Any) -> dict[str, Any]:
    own = {"running_mean": torch.ones(INPUTS, dtype=torch.float64), "current_count": torch.ones(())}
    return own | {"running_variance": torch.full((INPUTS,), 4.0, dtype=torch.float64)} | more


W = torch.zeros(8, 8)


@pytest.mark.parametrize(
    ("make", "left_out"),
    [
        (lambda f: sb3(f, ppo(**{"features_extractor.linear.weight": W})), "features_extractor.linear.weight"),
        (lambda f: sb3(f, ppo(**{"pi_features_extractor.linear.weight": W})), "pi_features_extractor.linear.weight"),
        (lambda f: sb3(f, net("actor.mu") | {"actor.features_extractor.0.weight": W}), "actor.features_extractor"),
        (lambda f: skrl(f, net() | {"mean_layer.weight": W}), "mean_layer.weight"),
        (lambda f: skrl(f, net() | {f"net.{'1' * 5000}.weight": W}), "net.1111"),
        (lambda f: rsl_rl(f, net("mlp") | {"cnns.camera.weight": W}), "cnns.camera.weight"),
        (lambda f: rsl_rl(f, net("mlp") | {"mlp.1.gain": W}), "mlp.1.gain"),
        (lambda f: rsl_rl_3(f, net("actor") | {"actor.1.gain": W}), "actor.1.gain"),
        (lambda f: rl_games(f, {"a2c_network.extra.weight": W}), "a2c_network.extra"),
        (lambda f: saved(f, rl_games_sac(net("trunk") | {"trunk.1.gain": W})), "trunk.1.gain"),
    ],
)
def test_what_would_be_left_out_of_an_actor_is_refused(make, left_out, tmp_path):
    with pytest.raises(
        RookeryError, match=f"holds no perceptron alone: {left_out}.* would be left out of its actor"
    ) as e:
        read_actor(make(tmp_path))
    assert len(str(e.value)) < 500


@pytest.mark.parametrize(
    "weights",
    [
        ppo(**{"vf_features_extractor.linear.weight": W}),
        sac(),
        net("actor.mu") | {"actor_target.mu.0.weight": W, "critic_target.qf0.0.weight": W},
    ],
    ids=["ppo", "sac", "td3"],
)
def test_what_is_the_critics_is_left_out(weights, tmp_path):
    sizes = [tuple(w.shape) for w, _ in read_actor(sb3(tmp_path, weights)).layers]
    assert sizes == [(8, INPUTS), (OUTPUTS, 8)]


@pytest.mark.parametrize(
    ("layers", "statistics"),
    [
        ({"net.2.weight": torch.zeros(OUTPUTS, 1)}, {}),
        ({"net.2.bias": torch.zeros(1)}, {}),
        ({"net.0.bias": torch.zeros(8, 1)}, {}),
        ({}, {"running_mean": torch.zeros(1)}),
        ({}, {"running_variance": torch.ones(1)}),
    ],
)
def test_numbers_are_not_repeated_to_fit(layers, statistics, tmp_path):
    file = skrl(tmp_path, net() | layers, observation_preprocessor=scaler(**statistics))
    with pytest.raises(RookeryError, match="do not follow each other, or its normalizer is of another size"):
        as_policy(read_actor(file), "relu", "clip")


@pytest.mark.parametrize(
    "statistics",
    ["standard", scaler(running_variance=torch.ones(INPUTS, dtype=torch.int64)), {"running_mean": torch.ones(INPUTS)}],
)
def test_statistics_that_are_none_are_refused(statistics, tmp_path):
    with pytest.raises(RookeryError, match="has statistics in observation_preprocessor that are not those"):
        read_actor(skrl(tmp_path, net(), observation_preprocessor=statistics))
    half = net("mlp") | {"obs_normalizer._mean": torch.zeros(1, INPUTS), "obs_normalizer.count": torch.tensor(3)}
    with pytest.raises(RookeryError, match="has statistics in obs_normalizer that are not those"):
        read_actor(rsl_rl(tmp_path, half))


@pytest.mark.parametrize("name", ["observation_preprocessor", "state_preprocessor"])
def test_the_preprocessor_of_skrl_by_the_names_of_both_versions(name, tmp_path):
    weights = net()
    file = skrl(tmp_path, weights | {"log_std_parameter": torch.zeros(OUTPUTS)}, **{name: scaler()})
    policy = as_policy(read_actor(file), "relu", "clip")
    obs = torch.randn(32, INPUTS)
    wanted = forward(weights, "net", ((obs - 1.0) / 2.0).clamp(-5.0, 5.0), 2).clamp(-1.0, 1.0)
    torch.testing.assert_close(policy(obs), wanted, rtol=1e-5, atol=1e-5)


def test_the_observations_preprocessor_goes_before_that_of_states(tmp_path):
    critics = scaler(running_mean=torch.zeros(INPUTS), running_variance=torch.ones(INPUTS))
    found = read_actor(skrl(tmp_path, net(), observation_preprocessor=scaler(), state_preprocessor=critics))
    assert found.normalizer is not None and found.normalizer.mean.tolist() == [1.0] * INPUTS


def test_layers_are_in_the_order_of_their_numbers(tmp_path):
    """Of ten and more, whose names would be in another order as text."""
    weights = net("net", (INPUTS, 7, 7, 7, 7, 7, OUTPUTS))
    assert "net.10.weight" in weights
    policy = as_policy(read_actor(skrl(tmp_path, dict(sorted(weights.items())))), "relu", "clip")
    obs = torch.randn(32, INPUTS)
    torch.testing.assert_close(policy(obs), forward(weights, "net", obs, 6).clamp(-1.0, 1.0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("layer", ["rnn.weight", "lstm.weight_ih_l0", "memory.gru.bias"])
def test_actors_with_memory_are_refused(layer, tmp_path):
    with pytest.raises(RookeryError, match="actors with memory"):
        read_actor(skrl(tmp_path, net() | {layer: W}))


STATISTICS = {
    "_mean": torch.ones(1, INPUTS),
    "_var": torch.full((1, INPUTS), 4.0),
    "_std": torch.full((1, INPUTS), 2.0),
}
CRITIC = linear("critic.0", INPUTS, 8) | linear("critic.2", 8, 1)


@pytest.mark.parametrize(
    "make",
    [
        # 4: rsl_rl/models/mlp_model.py
        lambda f, w: rsl_rl(f, _renamed(w, "mlp") | _named("obs_normalizer.") | {"log_std": torch.zeros(OUTPUTS)}),
        # 3: rsl_rl/modules/actor_critic.py
        lambda f, w: rsl_rl_3(
            f, w | CRITIC | _named("actor_obs_normalizer.") | _named("critic_obs_normalizer.") | _std()
        ),
        # 1 and 2: the normalizer beside the model
        lambda f, w: rsl_rl_3(f, w | CRITIC | _std(), obs_norm_state_dict=STATISTICS | {"count": torch.tensor(3)}),
    ],
    ids=["4", "3", "2"],
)
def test_layouts_of_older_rsl_rl(make, tmp_path):
    """Written here as versions 4.0.0, 3.1.2 and 2.3.3 write them; another version is installed."""
    weights = net("actor")
    policy = as_policy(read_actor(make(tmp_path, weights)), "relu")
    obs = torch.randn(32, INPUTS)
    wanted = forward(weights, "actor", (obs - 1.0) / (2.0 + 1e-2), 2).clamp(-1.0, 1.0)
    torch.testing.assert_close(policy(obs), wanted, rtol=1e-5, atol=1e-5)


def test_means_beside_deviations_that_depend_on_the_state(tmp_path):
    """Of rsl_rl 3, state_dependent_std=True: the last layer gives both, and nothing else is stored."""
    weights = net("actor", (INPUTS, 8, 2 * OUTPUTS))
    actor = read_actor(rsl_rl_3(tmp_path, weights | CRITIC))
    obs = torch.randn(32, INPUTS)
    wanted = forward(weights, "actor", obs, 2)[:, :OUTPUTS].clamp(-1.0, 1.0)
    torch.testing.assert_close(as_policy(actor, "relu", None, OUTPUTS)(obs), wanted, rtol=1e-5, atol=1e-5)


def test_a_distribution_that_the_file_does_not_tell_is_refused(tmp_path):
    """Of rsl_rl 5: a Beta distribution stores as much as a normal one whose deviation depends on the state."""
    file = rsl_rl(tmp_path, net("mlp", (INPUTS, 8, 2 * OUTPUTS)))
    with pytest.raises(
        RookeryError, match="gives 8 numbers for the 4 actions of drone-hover, and its file does not tell"
    ):
        rookery.import_policy(file, TASK, activation="relu", out=tmp_path / "run")


def _renamed(weights: dict[str, torch.Tensor], name: str) -> dict[str, torch.Tensor]:
    return {key.replace("actor", name): x for key, x in weights.items()}


def _named(prefix: str) -> dict[str, torch.Tensor]:
    return {prefix + name: x for name, x in STATISTICS.items()}


def _std() -> dict[str, torch.Tensor]:
    return {"std": torch.ones(OUTPUTS)}


@pytest.mark.parametrize(
    ("saved", "said"),
    [
        ({"actor": {}, "critic": {}, "critic_target": {}}, "holds no perceptron"),
        (rl_games_sac(net("trunk", (INPUTS, 8, 5))), "is of rl_games' SAC and gives no deviation for each mean"),
        (rl_games_sac(net("trunk", (INPUTS, 8, 6)), running_mean_std=3), "statistics in running_mean_std"),
        ({"model": {"a2c_network.logits.weight": W}}, "is of rl_games and holds no means of continuous actions"),
        ({"model": {"x": 3}}, "is of rl_games and holds no means"),
        ({"model_state_dict": net("actor"), "obs_norm_state_dict": 3}, "statistics in obs_norm_state_dict"),
        (
            {"model_state_dict": net("actor") | {"std": W[0]}, "obs_norm_state_dict": {"_mean": W}},
            "statistics in obs_norm_state",
        ),
        ({"model_state_dict": net("actor", (INPUTS, 8, 5))}, "no deviations, and a last layer of an odd size"),
        ({"epoch": 3, "optimizer": {}}, "holds epoch, optimizer, and is no file of rsl_rl"),
        ({}, "holds nothing, and is no file of rsl_rl"),
    ],
)
def test_files_that_are_whole_are_not_called_damaged(saved, said, tmp_path):
    torch.save(saved, tmp_path / "model.pt")
    with pytest.raises(RookeryError, match=said) as e:
        read_actor(tmp_path / "model.pt")
    assert "damaged" not in str(e.value)


def test_a_whole_module_is_refused_by_its_class(tmp_path):
    torch.save(torch.nn.Sequential(torch.nn.Linear(INPUTS, OUTPUTS)), tmp_path / "model.pt")
    said = r"holds objects of torch\.nn\.modules\.container\.Sequential, which reading would execute: save its tensors alone"
    with pytest.raises(RookeryError, match=said):
        read_actor(tmp_path / "model.pt")


def test_files_of_old_torch_say_so(tmp_path):
    torch.save({"model_state_dict": net("actor")}, tmp_path / "model.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RookeryError, match=r"in the format of torch before 1\.6: load it there and save it"):
        read_actor(tmp_path / "model.pt")


def encrypted(file: Path) -> None:
    """Mark every entry as encrypted."""
    data = bytearray(file.read_bytes())
    for sign, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = -1
        while (place := data.find(sign, place + 1)) >= 0:
            data[place + at] |= 1
    file.write_bytes(bytes(data))


def damaged(file: Path) -> None:
    """Zeros amid the first entry."""
    data = bytearray(file.read_bytes())
    data[60:140] = bytes(80)
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.parametrize("change", [encrypted, damaged])
def test_archives_that_cannot_be_unpacked_are_one_sentence(compression, change, tmp_path):
    file = sb3(tmp_path, ppo(), compression)
    read_actor(file)
    change(file)
    with pytest.raises(RookeryError, match="is damaged, or no file of rsl_rl"):
        read_actor(file)


def test_an_archive_that_would_fill_the_memory_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("rookery.policies.imports.reading.MOST_BYTES", 20_000)
    file = sb3(tmp_path, {"action_net.weight": torch.zeros(1, 100_000)}, zipfile.ZIP_DEFLATED)
    assert file.stat().st_size < 20_000
    monkeypatch.setattr(zipfile.ZipFile, "read", lambda *_: pytest.fail("unpacked"))
    with pytest.raises(RookeryError, match="is damaged, or no file of"):
        read_actor(file)


# Statistics in a .npz file


def written(folder: Path, **arrays: Any) -> Path:
    np.savez(folder / "n.npz", **({"mean": np.zeros(3), "var": np.full(3, 4.0)} | arrays))
    return folder / "n.npz"


def test_statistics_without_a_limit_have_none(tmp_path):
    plain = read_normalizer(written(tmp_path))
    assert plain.limit == NO_LIMIT and plain.std.tolist() == [2.0] * 3
    assert read_normalizer(written(tmp_path, limit=np.inf)).limit == NO_LIMIT
    assert read_normalizer(written(tmp_path, limit=7.0, epsilon=5.0)).limit == 7.0
    assert read_normalizer(written(tmp_path, epsilon=5.0)).std.tolist() == [3.0] * 3


@pytest.mark.parametrize(
    "arrays",
    [
        {"var": [1.0, -1.0, 1.0]}, {"var": [1.0, 0.0, 1.0]}, {"var": [1e300] * 3}, {"var": [np.nan] * 3},
        {"mean": [1e300] * 3}, {"mean": [np.nan] * 3}, {"limit": 0.0}, {"limit": np.nan},
    ],
)  # fmt: skip
def test_statistics_that_cannot_be_used_are_one_sentence(arrays, tmp_path):
    file = written(tmp_path, **arrays)
    with warnings.catch_warnings(action="error"), pytest.raises(RookeryError, match="no normalizer that can be used"):
        read_normalizer(file)


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (lambda f: rsl_rl(f, net("mlp") | normalized()), ["--activation", "elu"]),
        (lambda f: skrl(f, net(), observation_preprocessor=scaler()), ["--squash", "clip"]),
    ],
    ids=["rsl_rl", "skrl"],
)
def test_statistics_beside_a_file_that_has_its_own_are_refused(make, options, tmp_path, capsys):
    words = ["import", str(make(tmp_path)), TASK, "--normalizer", str(written(tmp_path)), *options]
    assert main([*words, "--out", str(tmp_path / "run")]) == 2
    assert "file holds a normalizer of its own: leave --normalizer out" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def normalized() -> dict[str, torch.Tensor]:
    return {f"obs_normalizer.{name}": torch.ones(1, INPUTS) for name in ("_mean", "_var", "_std")}


# The run folder


def test_every_option_of_the_command_is_heard(tmp_path):
    """Against the layers' own numbers: squashed, normalized, for another config and engine."""
    weights = net()
    statistics = written(tmp_path, mean=np.full(INPUTS, 0.5), var=np.full(INPUTS, 4.0), limit=1.0)
    words = ["--activation", "relu", "--squash", "tanh", "--normalizer", str(statistics), "--engine", "mujoco"]
    words += ["--task-config", "episode_s=4.5", "--out", str(tmp_path / "run")]
    assert main(["import", str(skrl(tmp_path, weights)), TASK, *words]) == 0
    policies, contract = open_run(tmp_path / "run")
    obs = torch.randn(32, INPUTS)
    wanted = forward(weights, "net", ((obs - 0.5) / 2.0).clamp(-1.0, 1.0), 2).tanh()
    torch.testing.assert_close(policies["drone"](obs), wanted, rtol=1e-5, atol=1e-5)
    assert contract.task_config["episode_s"] == 4.5
    assert contract.provenance.engine == "mujoco"


def test_the_contract_says_what_was_learned_and_assumed(tmp_path):
    file = sb3(tmp_path, ppo(), num_timesteps=1234)
    assert open_run(rookery.import_policy(file, TASK, out=tmp_path / "sb3"))[1].provenance.steps == 1234
    file = skrl(tmp_path, net(), observation_preprocessor=scaler())
    folder = rookery.import_policy(file, TASK, activation="relu", squash="clip", out=tmp_path / "skrl")
    said = str(open_run(folder)[1].provenance.more["imported"])
    assert said == "agent_8.pt of skrl; assumed: a clip_threshold of 5 in skrl's RunningStandardScaler"


def test_without_a_folder_the_run_is_the_latest(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = rookery.import_policy(sb3(tmp_path, ppo()), TASK)
    assert folder.resolve() == (Path("runs") / TASK / "latest").resolve()


def test_actions_of_another_number_are_refused(tmp_path):
    file = skrl(tmp_path, net("net", (INPUTS, 8, OUTPUTS + 1)))
    with pytest.raises(RookeryError, match="takes 16 observations and gives 5 actions, and drone-hover has 16 and 4"):
        rookery.import_policy(file, TASK, activation="relu", squash="clip", out=tmp_path / "run")
