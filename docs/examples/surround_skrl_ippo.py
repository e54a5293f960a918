"""skrl's IPPO trains swarm-surround, each drone alone: python docs/examples/surround_skrl_ippo.py [control steps]."""

import sys

import torch
from skrl.memories.torch import RandomMemory
from skrl.multi_agents.torch.ippo import IPPO, IPPO_CFG
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model

import rookery
from rookery.experiments.recipes import preset
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.skrl_env import SkrlMultiAgentEnv, use_final_observations

own = {"weights": preset("swarm-surround").weights, "config": preset("swarm-surround").train_overrides}
env = SkrlMultiAgentEnv(rookery.make("swarm-surround", num_envs=512, **own))
net, models = {"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "tanh"}, {}
for name in env.agents:
    sizes = {key: getattr(env, key)(name) for key in ("observation_space", "state_space", "action_space")}
    models[name] = {"policy": gaussian_model(**sizes, network=[net], output="ACTIONS", initial_log_std=-1.05)}
    models[name]["value"] = deterministic_model(**sizes, network=[net], output="ONE")
cfg = IPPO_CFG(rollouts=32, learning_epochs=5, mini_batches=4, time_limit_bootstrap=True, learning_rate=2e-3)
cfg.value_preprocessor, cfg.value_preprocessor_kwargs = RunningStandardScaler, {"size": 1}
no = {name: {} for name in env.agents}  # skrl 2.1 refuses the {} that these are by default
cfg.learning_rate_scheduler_kwargs = cfg.observation_preprocessor_kwargs = cfg.state_preprocessor_kwargs = no
cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
spaces = {kind: getattr(env, kind) for kind in ("observation_spaces", "state_spaces", "action_spaces")}
memories = {name: RandomMemory(memory_size=32, num_envs=512) for name in env.agents}
agent = use_final_observations(IPPO(possible_agents=env.agents, models=models, memories=memories, cfg=cfg, **spaces))
SequentialTrainer(env=env, agents=agent, cfg={"timesteps": int(sys.argv[1]) if len(sys.argv) > 1 else 1600}).train()

mean = lambda obs, model: model["policy"].compute({"observations": obs})[0].detach()  # noqa: E731
act = lambda obs: {"drone": torch.stack([*map(mean, obs["drone"].unbind(1), models.values())], 1)}  # noqa: E731
print("success", evaluate(rookery.make("swarm-surround", 128), act, episodes=128)["success_rate"])
