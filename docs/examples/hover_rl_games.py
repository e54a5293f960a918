"""rl_games trains drone-hover through `rookery.isaacgym`: python docs/examples/hover_rl_games.py [epochs]."""

import sys

from rl_games.common import env_configurations, vecenv
from rl_games.common.algo_observer import DefaultAlgoObserver
from rl_games.torch_runner import Runner

import rookery
from rookery import isaacgym
from rookery.experiments.recipes import preset
from rookery.policies.training.evaluate import evaluate

own = {"rookery": {"config": preset("drone-hover").train_overrides}}
vecenv.register("ROOKERY", lambda name, n, **_: isaacgym.make(task=name, num_envs=n, cfg=own))
env_configurations.register("drone-hover", {"vecenv_type": "ROOKERY"})
mlp = {"units": [64, 64], "activation": "tanh", "initializer": {"name": "default"}}
sigma = {"sigma_activation": "None", "sigma_init": {"name": "const_initializer", "val": -1.05}, "fixed_sigma": True}
space = {"continuous": {"mu_activation": "None", "mu_init": {"name": "default"}} | sigma}
config = {"name": "hover", "env_name": "drone-hover", "num_actors": 512, "device": "cpu", "torch_compile": False}
config |= {"horizon_length": 32, "minibatch_size": 2048, "mini_epochs": 10, "gamma": 0.99, "tau": 0.95}
config |= {"learning_rate": 1e-3, "lr_schedule": "adaptive", "kl_threshold": 0.008, "e_clip": 0.2}
config |= {"entropy_coef": 0.0, "bounds_loss_coef": 0.0, "grad_norm": 1.0, "truncate_grads": True, "clip_value": True}
config |= {"normalize_input": False, "normalize_value": True, "normalize_advantage": True, "value_bootstrap": True}
config |= {"reward_shaper": {"scale_value": 1.0}, "critic_coef": 1.0}
config["max_epochs"] = int(sys.argv[1]) if len(sys.argv) > 1 else 200
network = {"name": "actor_critic", "separate": True, "space": space, "mlp": mlp}
params = {"seed": 1, "algo": {"name": "a2c_continuous"}, "model": {"name": "continuous_a2c_logstd"}, "network": network}
runner = Runner(observer := DefaultAlgoObserver())
runner.load({"params": params | {"config": config}})
runner.run({"train": True})

act = lambda obs: {"drone": observer.algo.get_action_values({"obs": obs["drone"][:, 0]})["mus"][:, None]}  # noqa: E731
print("success", evaluate(rookery.make("drone-hover", 128), act, episodes=128)["success_rate"])
