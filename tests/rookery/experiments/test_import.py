"""Actors of other libraries become runs that act as the library's own inference does."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import rookery
from rookery.cli.main import main
from rookery.experiments.runs import open_run
from rookery.policies.imports.actor import as_policy
from rookery.policies.imports.reading import read_actor
from rookery.sim.errors import RookeryError
from rookery.sim2real.contract import Delay, Latency, MeasurementErrors

pytest.importorskip("rsl_rl", reason="the extra `trainers` is not installed")

TASK = "drone-hover"
INPUTS = 16  # of drone-hover
Act = Callable[[torch.Tensor], torch.Tensor]


def rsl_rl(folder: Path) -> tuple[Path, Act]:
    from rsl_rl.runners import OnPolicyRunner

    from rookery.sim.adapters.rsl_rl_env import RslRlEnv

    network = {"class_name": "MLPModel", "hidden_dims": [32, 16], "activation": "elu", "obs_normalization": True}
    config = {
        "num_steps_per_env": 8, "save_interval": 1000, "multi_gpu": None,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": network | {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.35}},
        "critic": network,
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 1, "num_mini_batches": 1},
    }  # fmt: skip
    runner = OnPolicyRunner(RslRlEnv(rookery.make(TASK, 8)), config)
    runner.learn(2)
    runner.save(str(folder / "model_2.pt"))
    policy = runner.get_inference_policy()
    return folder / "model_2.pt", lambda obs: policy({"policy": obs}).clamp(-1.0, 1.0)


def sb3(folder: Path, name: str, **options: object) -> tuple[Path, Act]:
    import stable_baselines3

    from rookery.sim.adapters.sb3_env import Sb3VecEnv

    env = Sb3VecEnv(rookery.make(TASK, 4))
    model = getattr(stable_baselines3, name)("MlpPolicy", env, device="cpu", **options)
    model.save(folder / name)
    return folder / f"{name}.zip", lambda obs: torch.from_numpy(model.predict(obs.numpy(), deterministic=True)[0])


def ppo(folder: Path) -> tuple[Path, Act]:
    kwargs = {"net_arch": [32, 16], "activation_fn": torch.nn.ELU}
    return sb3(folder, "PPO", n_steps=8, batch_size=32, policy_kwargs=kwargs)


def default_ppo(folder: Path) -> tuple[Path, Act]:
    """Without policy_kwargs: layers of 64 and 64 with tanh."""
    return sb3(folder, "PPO", n_steps=8, batch_size=32)


def gsde(folder: Path) -> tuple[Path, Act]:
    """With tanh behind the mean, which is said by an argument alone."""
    kwargs = {"net_arch": [32], "squash_output": True, "log_std_init": -2.0}
    return sb3(folder, "PPO", n_steps=8, batch_size=32, use_sde=True, policy_kwargs=kwargs)


def a2c(folder: Path) -> tuple[Path, Act]:
    return sb3(folder, "A2C", n_steps=8, policy_kwargs={"net_arch": [], "activation_fn": torch.nn.ReLU})


def gsde_sac(folder: Path) -> tuple[Path, Act]:
    return sb3(folder, "SAC", use_sde=True, policy_kwargs={"net_arch": [32], "clip_mean": 0.0})


def sac(folder: Path) -> tuple[Path, Act]:
    return sb3(folder, "SAC", policy_kwargs={"net_arch": [32, 16]})


def td3(folder: Path) -> tuple[Path, Act]:
    return sb3(folder, "TD3", policy_kwargs={"net_arch": [32, 16]})


def skrl(folder: Path) -> tuple[Path, Act]:
    from skrl.agents.torch.ppo import PPO, PPO_CFG
    from skrl.memories.torch import RandomMemory
    from skrl.resources.preprocessors.torch import RunningStandardScaler
    from skrl.trainers.torch import SequentialTrainer
    from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model

    from rookery.sim.adapters.skrl_env import SkrlEnv

    env = SkrlEnv(rookery.make(TASK, 8))
    sizes = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
    network = [{"name": "net", "input": "OBSERVATIONS", "layers": [32, 16], "activations": "relu"}]
    actor = gaussian_model(**sizes, network=network, output="ACTIONS", initial_log_std=-1.0)
    models = {"policy": actor, "value": deterministic_model(**sizes, network=network, output="ONE")}
    cfg = PPO_CFG(rollouts=4, learning_epochs=1, mini_batches=1)
    cfg.observation_preprocessor = RunningStandardScaler
    cfg.observation_preprocessor_kwargs = {"size": env.observation_space}
    cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
    agent = PPO(models=models, memory=RandomMemory(memory_size=4, num_envs=8), cfg=cfg, **sizes)
    options = {"timesteps": 8, "close_environment_at_exit": False, "headless": True, "disable_progressbar": True}
    SequentialTrainer(env=env, agents=agent, cfg=options).train()
    agent.save(str(folder / "agent_8.pt"))
    scaler = agent._observation_preprocessor

    def act(obs: torch.Tensor) -> torch.Tensor:
        return actor.act({"observations": scaler(obs)}, role="policy")[1]["mean_actions"].detach().clamp(-1.0, 1.0)

    return folder / "agent_8.pt", act


def rl_games(folder: Path) -> tuple[Path, Act]:
    """Of the library's own network, saved by its own function as its algorithms do."""
    from rl_games.algos_torch import torch_ext
    from rl_games.algos_torch.models import ModelA2CContinuousLogStd
    from rl_games.algos_torch.network_builder import A2CBuilder

    default = {"name": "default"}
    sigma = {"sigma_activation": "None", "sigma_init": {"name": "const_initializer", "val": 0.0}, "fixed_sigma": True}
    space = {"continuous": {"mu_activation": "None", "mu_init": default, **sigma}}
    builder = A2CBuilder()
    builder.load(
        {"separate": True, "space": space, "mlp": {"units": [32, 16], "activation": "elu", "initializer": default}}
    )
    sizes = {"input_shape": (INPUTS,), "actions_num": 4, "num_seqs": 1}
    model = ModelA2CContinuousLogStd(builder).build(sizes | {"normalize_input": True, "normalize_value": True})
    model.train()
    for _ in range(3):
        model.running_mean_std(1.0 + 2.0 * torch.randn(100, INPUTS))
    model.eval()
    compiled = {f"_orig_mod.{name}": x for name, x in model.state_dict().items()}  # as torch.compile names them
    torch_ext.save_checkpoint(
        str(folder / "hover"), {"model": compiled, "frame": 640, "last_mean_rewards": np.float32(-1.0)}
    )

    def act(obs: torch.Tensor) -> torch.Tensor:
        return model({"is_train": False, "obs": obs.clone()})["mus"].detach().clamp(-1.0, 1.0)

    return folder / "hover.pth", act


def rl_games_sac(folder: Path) -> tuple[Path, Act]:
    """Of the library's own model, with what `SACAgent.get_full_state_weights` saves of it."""
    from rl_games.algos_torch import torch_ext
    from rl_games.algos_torch.models import ModelSACContinuous
    from rl_games.algos_torch.network_builder import SACBuilder

    builder = SACBuilder()
    mlp = {"units": [32, 16], "activation": "relu", "initializer": {"name": "default"}}
    builder.load({"separate": True, "space": {"continuous": {}}, "mlp": mlp, "log_std_bounds": [-5.0, 2.0]})
    sizes = {"obs_dim": INPUTS, "action_dim": 4, "actions_num": 4, "input_shape": (INPUTS,)}
    model = ModelSACContinuous(builder).build(sizes | {"normalize_input": True, "normalize_value": False})
    model.train()
    for _ in range(3):
        model.running_mean_std(1.0 + 2.0 * torch.randn(100, INPUTS))
    model.eval()
    networks = {name: getattr(model.sac_network, name).state_dict() for name in ("actor", "critic", "critic_target")}
    statistics = {"running_mean_std": model.running_mean_std.state_dict()}
    torch_ext.save_checkpoint(str(folder / "hover"), networks | statistics | {"epoch": 2, "frame": 640})

    def act(obs: torch.Tensor) -> torch.Tensor:
        return model.actor(model.norm_obs(obs.clone())).mean.detach().clamp(-1.0, 1.0)

    return folder / "hover.pth", act


def torchrl(folder: Path, outputs: int = 4) -> tuple[Path, Act]:
    from tensordict import TensorDict
    from tensordict.nn import AddStateIndependentNormalScale, NormalParamExtractor, TensorDictModule
    from torchrl.envs.utils import ExplorationType, set_exploration_type
    from torchrl.modules import MLP, ProbabilisticActor, TanhNormal

    scale = AddStateIndependentNormalScale(4) if outputs == 4 else NormalParamExtractor()
    net = torch.nn.Sequential(MLP(INPUTS, outputs, num_cells=[32, 16], activation_class=torch.nn.ELU), scale)
    keys = ["loc", "scale"]
    actor = ProbabilisticActor(TensorDictModule(net, ["observation"], keys), keys, distribution_class=TanhNormal)
    torch.save(actor.state_dict(), folder / "actor.pt")

    def act(obs: torch.Tensor) -> torch.Tensor:
        with set_exploration_type(ExplorationType.DETERMINISTIC), torch.no_grad():
            return actor(TensorDict({"observation": obs}, [len(obs)]))["action"]

    return folder / "actor.pt", act


def torchrl_extractor(folder: Path) -> tuple[Path, Act]:
    """Means and deviations side by side."""
    return torchrl(folder, 8)


TOLD = {"activation": "elu", "squash": "clip"}


@pytest.mark.parametrize(
    ("make", "options"),
    [
        (rsl_rl, {"activation": "elu"}), (ppo, {}), (default_ppo, {}), (gsde, {}), (a2c, {}), (sac, {}), (gsde_sac, {}),
        (td3, {}),
        (skrl, {"activation": "relu", "squash": "clip"}), (rl_games, TOLD), (torchrl, TOLD | {"squash": "tanh"}),
        (rl_games_sac, {"activation": "relu"}),
        (torchrl_extractor, TOLD | {"squash": "tanh"}),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_acts_as_the_library_does(make, options, tmp_path):
    file, act = make(tmp_path)
    folder = rookery.import_policy(file, TASK, out=tmp_path / "run", config={"episode_s": 4.0}, **options)
    policies, contract = open_run(folder)
    obs = 3.0 * torch.randn(64, INPUTS, generator=torch.Generator().manual_seed(0))
    ours = policies["drone"](obs)
    torch.testing.assert_close(ours, act(obs).float(), rtol=1e-5, atol=1e-5)
    assert ours.std() > 0.001  # of default layers, before any training
    assert contract.task_config["episode_s"] == 4.0
    assert file.name in str(contract.provenance.more["imported"])


def test_statistics_beside_the_file(tmp_path):
    """Those of VecNormalize, which Stable-Baselines3 saves apart."""
    from stable_baselines3.common.vec_env import VecNormalize

    from rookery.sim.adapters.sb3_env import Sb3VecEnv

    file, act = ppo(tmp_path)
    env = VecNormalize(Sb3VecEnv(rookery.make(TASK, 8)), clip_obs=2.0)
    env.reset()
    for _ in range(10):
        env.step(np.zeros((8, 4), np.float32))
    rms = env.obs_rms
    np.savez(tmp_path / "n.npz", mean=rms.mean, var=rms.var, epsilon=env.epsilon, limit=env.clip_obs)
    folder = rookery.import_policy(file, TASK, out=tmp_path / "run", normalizer=tmp_path / "n.npz")
    obs = torch.randn(32, INPUTS, generator=torch.Generator().manual_seed(1))
    wanted = act(torch.from_numpy(env.normalize_obs(obs.numpy().astype(np.float64))).float())
    torch.testing.assert_close(open_run(folder)[0]["drone"](obs), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_command_makes_a_run_that_eval_and_export_take(tmp_path, capsys):
    file, _ = ppo(tmp_path)
    assert main(["import", str(file), TASK, "--out", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["task"] == TASK
    assert main(["eval", str(tmp_path / "run"), "--episodes", "2", "--num-envs", "2"]) == 0
    assert main(["export", str(tmp_path / "run"), "--out", str(tmp_path / "bundle")]) == 0
    assert main(["export", "--check", str(tmp_path / "bundle")]) == 0
    said = " ".join((tmp_path / "bundle" / "policy.h").read_text().replace("*", " ").split())
    assert "observation not known" in said


def test_the_contract_claims_no_training_conditions_that_nobody_told(tmp_path):
    file, _ = ppo(tmp_path)
    unknown = open_run(rookery.import_policy(file, TASK, out=tmp_path / "unknown"))[1]
    assert unknown.latency == Latency(Delay(0.0, None), Delay(0.0, None))
    assert unknown.measurement_errors == MeasurementErrors(None, None, None)
    assert unknown.provenance.randomisation is None
    told = open_run(rookery.import_policy(file, TASK, out=tmp_path / "told", randomize="default"))[1]
    assert told.latency == Latency(Delay(0.0, (0.0, 0.01)), Delay(0.0, (0.0, 0.02)))
    assert told.measurement_errors == MeasurementErrors((1.0, 1.0), (1.0, 1.0), (0.0, 0.0))
    assert told.provenance.randomisation == "default"
    none = ["import", str(file), TASK, "--randomize", "none", "--out", str(tmp_path / "none")]
    assert main(none) == 0
    assert open_run(tmp_path / "none")[1].latency == Latency()


@pytest.mark.parametrize(
    ("task", "options", "said"),
    [
        ("drone-hover", {"activation": "swish"}, "unknown activation 'swish'"),
        ("drone-hover", {"activation": "relu"}, "the sb3 file says elu, not relu: leave --activation out"),
        ("drone-hover", {"squash": "sin"}, "unknown squash 'sin'"),
        ("go2-velocity", {}, "takes 16 observations and gives 4 actions, and go2-velocity has 47 and 12"),
        ("go2arm-reach", {"config": {"agents": "parts"}}, "only a policy of a task with one group"),
        ("drone-hoover", {}, "did you mean 'drone-hover'"),
        ("drone-hover", {"normalizer": "missing.npz"}, "missing.npz holds no normalizer"),
        ("drone-hover", {"randomize": "draws.npz"}, "draws.npz is a log of draws"),
        ("drone-hover", {"randomize": "defaults"}, "did you mean 'default'"),
    ],
)
def test_what_does_not_fit(task, options, said, tmp_path):
    file, _ = ppo(tmp_path)
    with pytest.raises(RookeryError, match=said):
        rookery.import_policy(file, task, out=tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("make", "options", "wrong"),
    [
        (rsl_rl, {"activation": "elu"}, "layers"), (ppo, {}, "layers"), (sac, {}, "squash"), (td3, {}, "activation"),
        (skrl, {"activation": "relu", "squash": "clip"}, "normalizer"), (rl_games, TOLD, "normalizer"),
        (torchrl, TOLD | {"squash": "tanh"}, "layers"),
    ],
    ids=lambda x: getattr(x, "__name__", ""),
)  # fmt: skip
def test_a_policy_that_acts_otherwise_than_the_library_is_refused(make, options, wrong, tmp_path, monkeypatch):
    """As if the reader had misunderstood a file of the library's own."""
    from dataclasses import replace

    from rookery.policies.imports.actor import Normalizer

    actor = read_actor(make(tmp_path)[0])
    weight, bias = actor.layers[0]
    others = {
        "layers": {"layers": [(weight, bias + 0.01), *actor.layers[1:]]},
        "squash": {"squash": "clip"},
        "activation": {"activation": "elu"},
        "normalizer": {"normalizer": Normalizer(torch.zeros(INPUTS), torch.ones(INPUTS), 5.0)},
    }
    misread = replace(actor, **others[wrong])
    if wrong == "activation":
        inner = actor.reference
        misread = replace(misread, reference=lambda activation, squash: inner(actor.activation, squash))
    as_policy(actor, **options)
    with pytest.raises(RookeryError, match=r"would act otherwise than .* on 64 observations: export the actor as"):
        as_policy(misread, **options)


def test_a_class_or_argument_that_is_not_understood_is_refused(tmp_path):
    """Known is what the library's own policies do; a class of the user's may do something else."""
    file, _ = sb3(tmp_path, "PPO", n_steps=8, batch_size=32)
    assert read_actor(file).activation == "tanh"
    as_policy(read_actor(file), "tanh")
    with pytest.raises(RookeryError, match="the sb3 file says tanh, not relu"):
        as_policy(read_actor(file), "relu")
    with zipfile.ZipFile(file) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    about = json.loads(entries["data"])
    for change, said in (
        (
            {"policy_class": about["policy_class"] | {"__module__": "mine"}},
            "a policy of the class mine.ActorCriticPolicy",
        ),
        (
            {"policy_class": about["policy_class"] | {"__init__": "<function Mine.__init__ at"}},
            "of the class .*Mine, which may",
        ),
        ({"policy_class": 3}, "a policy of the class"),
        (
            {"policy_kwargs": {"activation_fn": "<class 'mine.ELU'>"}},
            "the activation .*mine.ELU.*, which is none of torch's",
        ),
        ({"policy_kwargs": {"scaled": True}}, "the policy argument scaled, which is not understood"),
        (
            {"policy_kwargs": {"features_extractor_class": "<class 'mine.Squares'>"}},
            "the features extractor .*mine.Squares",
        ),
        ({"policy_kwargs": {"features_extractor_kwargs": {"a": 1}}}, "arguments for its features extractor"),
        ({"action_space": about["action_space"] | {"high": "[2. 2. 2. 2.]"}}, "trained with actions whose high is"),
        (
            {"policy_kwargs": {"activation_fn": "<class 'torch.nn.modules.activation.SiLU'>"}},
            "the activation silu, and a perc",
        ),
    ):
        with zipfile.ZipFile(tmp_path / "own.zip", "w") as archive:
            for name, data in entries.items():
                archive.writestr(name, json.dumps(about | change) if name == "data" else data)
        with pytest.raises(RookeryError, match=said):
            as_policy(read_actor(tmp_path / "own.zip"))


def test_sac_with_gsde_cuts_its_mean(tmp_path):
    file, _ = sb3(tmp_path, "SAC", use_sde=True, policy_kwargs={"net_arch": [32]})
    with pytest.raises(RookeryError, match="SAC with gSDE, which cuts the mean at 2 before its tanh"):
        read_actor(file)


@pytest.mark.parametrize("make", [skrl, rl_games, torchrl])
def test_what_a_file_does_not_tell_is_asked_for(make, tmp_path):
    file, _ = make(tmp_path)
    with pytest.raises(RookeryError, match="does not tell the activation between its layers: give --activation"):
        as_policy(read_actor(file), squash="clip")
    with pytest.raises(RookeryError, match=r"does not tell the function behind its last layer.*: give --squash"):
        as_policy(read_actor(file), "elu")


def test_files_that_are_something_else(tmp_path):
    other = tmp_path / "other.pt"
    with pytest.raises(RookeryError, match="cannot be read"):
        rookery.import_policy(other, TASK)
    other.write_bytes(b"PK" + bytes(100))
    with pytest.raises(RookeryError, match="is damaged, or no file of"):
        rookery.import_policy(other, TASK)
    torch.save({"weights": torch.zeros(3)}, other)
    with pytest.raises(RookeryError, match="holds weights, and is no file of rsl_rl"):
        rookery.import_policy(other, TASK)
    torch.save({"policy": {"rnn.weight_ih": torch.zeros(3, 3), "net.0.weight": torch.zeros(4, 16)}}, other)
    with pytest.raises(RookeryError, match="holds no perceptron"):
        rookery.import_policy(other, TASK, activation="elu")
    two = {
        f"{net}.0.{part}": torch.zeros(*s) for net in ("a", "b") for part, s in (("weight", (4, 16)), ("bias", (4,)))
    }
    torch.save({"policy": two}, other)
    with pytest.raises(RookeryError, match="holds no perceptron"):
        rookery.import_policy(other, TASK)
    layers = {"net.0.weight": torch.zeros(8, 16), "net.0.bias": torch.zeros(8), "net.2.weight": torch.zeros(4, 8)}
    torch.save({"policy": layers | {"net.2.bias": torch.zeros(4)}}, other)
    with pytest.raises(
        RookeryError, match="this skrl file does not tell the activation between its layers: give --activation"
    ):
        rookery.import_policy(other, TASK)
    torch.save({"policy": layers | {"net.2.bias": torch.full((4,), float("nan"))}}, other)
    with pytest.raises(RookeryError, match="NaN or infinity in perceptron"):
        rookery.import_policy(other, TASK, activation="elu", squash="clip")


def test_nothing_in_a_file_is_executed(tmp_path):
    class Harm:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "harm",))

    torch.save({"policy": {"net.0.weight": Harm()}}, tmp_path / "agent.pt")
    with pytest.raises(
        RookeryError,
        match="holds objects of getattr, which reading would execute: save its tensors alone",
    ):
        rookery.import_policy(tmp_path / "agent.pt", TASK)
    assert not (tmp_path / "harm").exists()
