"""skrl trains drone-hover: python docs/examples/hover_skrl.py [control steps]."""

import sys

from skrl.agents.torch.ppo import PPO, PPO_CFG
from skrl.memories.torch import RandomMemory
from skrl.resources.preprocessors.torch import RunningStandardScaler
from skrl.trainers.torch import SequentialTrainer
from skrl.utils.model_instantiators.torch import deterministic_model, gaussian_model

import rookery
from rookery.policies.training.evaluate import evaluate
from rookery.sim.adapters.skrl_env import SkrlEnv, use_final_observations

inner = rookery.make("drone-hover", num_envs=1024)
env = SkrlEnv(inner)
sizes = {"observation_space": env.observation_space, "action_space": env.action_space, "device": env.device}
network = [{"name": "net", "input": "OBSERVATIONS", "layers": [64, 64], "activations": "tanh"}]
actor = gaussian_model(**sizes, network=network, output="ACTIONS", initial_log_std=-0.7)
models = {"policy": actor, "value": deterministic_model(**sizes, network=network, output="ONE")}
cfg = PPO_CFG(rollouts=32, learning_epochs=4, mini_batches=4, time_limit_bootstrap=True, grad_norm_clip=1.0)
cfg.observation_preprocessor, cfg.observation_preprocessor_kwargs = (
    RunningStandardScaler,
    {"size": env.observation_space},
)
cfg.experiment.write_interval = cfg.experiment.checkpoint_interval = 0
agent = use_final_observations(PPO(models=models, memory=RandomMemory(memory_size=32, num_envs=1024), cfg=cfg, **sizes))
steps = int(sys.argv[1]) if len(sys.argv) > 1 else 3200
SequentialTrainer(env=env, agents=agent, cfg={"timesteps": steps, "close_environment_at_exit": False}).train()


def act(obs):
    rows = {"observations": agent._observation_preprocessor(obs["drone"][:, 0])}
    return {"drone": actor.act(rows, role="policy")[1]["mean_actions"].detach()[:, None]}


print("success", evaluate(inner, act, episodes=128)["success_rate"])
