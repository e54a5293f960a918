"""skrl trains drone-hover: python docs/examples/hover_skrl.py [control steps]."""

import sys

from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.memories.torch import RandomMemory
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model
from torch.optim.lr_scheduler import LinearLR

import rookery
from rookery.experiments.recipes import preset
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.skrl_env import SkrlEnv, use_final_observations

steps = int(sys.argv[1]) if len(sys.argv) > 1 else 6400
env = SkrlEnv(rookery.make("drone-hover", num_envs=512, config=preset("drone-hover").train_overrides))
sizes = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
network = [{"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "tanh"}]
actor = gaussian_model(**sizes, network=network, output="ACTIONS", initial_log_std=-1.05)
models = {"policy": actor, "value": deterministic_model(**sizes, network=network, output="ONE")}
cfg = PPO_CFG(rollouts=32, learning_epochs=10, mini_batches=8, time_limit_bootstrap=True, grad_norm_clip=1.0)
cfg.learning_rate, cfg.learning_rate_scheduler = 3e-3, LinearLR  # stepped once an epoch
cfg.learning_rate_scheduler_kwargs = {"start_factor": 1.0, "end_factor": 0.01, "total_iters": steps * 10 // 32}
cfg.value_preprocessor, cfg.value_preprocessor_kwargs = RunningStandardScaler, {"size": 1}
cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
agent = use_final_observations(PPO(models=models, memory=RandomMemory(memory_size=32, num_envs=512), cfg=cfg, **sizes))
SequentialTrainer(env=env, agents=agent, cfg={"timesteps": steps, "close_environment_at_exit": False}).train()
agent.save("hover_skrl.pt")


def act(obs):
    rows = {"observations": obs["drone"][:, 0]}
    return {"drone": actor.act(rows, role="policy")[1]["mean_actions"].detach()[:, None]}


print("success", evaluate(rookery.make("drone-hover", 128), act, episodes=128)["success_rate"])
