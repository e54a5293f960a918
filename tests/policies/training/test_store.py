"""Finished policies: written whole, read back the same, refused when damaged."""

from __future__ import annotations

import json
import os

import pytest
import torch
from policies_drive import Drive
from policies_fake import FakeEnv
from safetensors.torch import load_file

from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.policy import Policy
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.store import load_policy, save_policy
from rookery.sim.errors import RookeryError


def policy(seed: int = 0) -> Policy:
    torch.manual_seed(seed)
    made = Policy(standard(5, 2, (8, 8), "elu"))
    made.get_buffer("normalize.mean").normal_()
    return made


def test_policies_come_back_the_same(tmp_path):
    contract = {"format": 3, "groups": {"drone": {"count": 2}}}
    save_policy(tmp_path, {"drone": policy()}, contract)
    assert {f.name for f in tmp_path.iterdir()} == {"policy.safetensors", "contract.json"}
    assert "stages" not in contract["groups"]["drone"]  # the caller's is left alone
    got, read = load_policy(tmp_path)
    obs = torch.randn(7, 5)
    assert torch.equal(got["drone"](obs), policy()(obs))
    assert read["format"] == 3 and read["groups"]["drone"] == {"count": 2, "stages": policy().to_json()}


def test_the_same_policy_is_the_same_file(tmp_path):
    for i in range(24):  # an order drawn anew would show in all but one of 2^23 cases
        save_policy(tmp_path / str(i), {"drone": policy()}, {"groups": {"drone": {}}})
    files = list(tmp_path.glob("*/policy.safetensors"))
    assert len(files) == 24 and len({file.read_bytes() for file in files}) == 1
    tensors = load_file(files[0])
    assert tensors.keys() == policy().state_dict().keys()
    assert all(torch.equal(x, tensors[name]) for name, x in policy().state_dict().items())


def test_the_contract_of_a_policy_with_memory_has_its_equations(tmp_path):
    """Those of the policy that is stored, whatever the contract had."""
    remembers = Policy(standard(5, 2, (8,), memory_size=4))
    save_policy(tmp_path / "a", {"drone": remembers}, {"groups": {"drone": {}}})
    own = load_policy(tmp_path / "a")[1]["groups"]["drone"]
    assert "sigmoid" in own["stages"][1]["formula"] and own["stages"][1]["size"] == 4
    save_policy(tmp_path / "b", {"drone": policy()}, {"groups": {"drone": own}})
    assert load_policy(tmp_path / "b")[1]["groups"]["drone"]["stages"] == policy().to_json()


def test_several_groups_have_a_file_each(tmp_path):
    save_policy(tmp_path, {"a": policy(1), "b_2": policy(2)}, {"groups": {"a": {}, "b_2": {}}})
    assert {f.name for f in tmp_path.glob("*.safetensors")} == {"policy_a.safetensors", "policy_b_2.safetensors"}
    got, _ = load_policy(tmp_path)
    obs = torch.randn(7, 5)
    assert torch.equal(got["b_2"](obs), policy(2)(obs))


def test_agents_with_weights_of_their_own(tmp_path):
    env = FakeEnv(4, agents=3)
    ppo = PPO(env, PPOConfig(share=False, hidden=(8,)))
    Drive(ppo).iterate()
    save_policy(tmp_path, ppo.policies(), {"groups": {"point": {}}})
    got, contract = load_policy(tmp_path)
    assert list(got) == ["point_0", "point_1", "point_2"] and list(contract["groups"]) == ["point"]
    obs, _ = env.reset()
    learner = ppo.learners["point"]
    mean = learner.mean_action(learner.observations.normalize(obs["point"])).clamp(-1.0, 1.0)
    torch.testing.assert_close(act_with(got, env)(obs)["point"], mean, rtol=1e-5, atol=1e-6)


def edited(tmp_path):
    other = tmp_path / "other"
    save_policy(other, {"drone": policy(9)}, {"groups": {"drone": {}}})
    mine, theirs = (f / "policy.safetensors" for f in (tmp_path, other))
    data = mine.read_bytes()
    mine.write_bytes(data[:-200] + theirs.read_bytes()[-200:])


def disagree(tmp_path):
    file = tmp_path / "contract.json"
    contract = json.loads(file.read_text())
    contract["groups"]["drone"]["stages"][1]["hidden"] = [8, 9]
    file.write_text(json.dumps(contract))


DAMAGE = {
    "truncated": (lambda p: os.truncate(p / "policy.safetensors", 300), "damaged"),
    "empty": (lambda p: os.truncate(p / "policy.safetensors", 0), "damaged"),
    "edited": (edited, "was edited"),
    "missing": (lambda p: (p / "policy.safetensors").unlink(), "is missing"),
    "other stages": (disagree, "disagree on the stages of group 'drone'"),
    "no contract": (lambda p: (p / "contract.json").unlink(), "holds no policy"),
    "cut contract": (lambda p: os.truncate(p / "contract.json", 20), "contract.json is damaged"),
    "no folder": (lambda p: (p / "contract.json").rename(p / "x"), "give the folder of a run"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damage_is_a_sentence(tmp_path, damage):
    save_policy(tmp_path, {"drone": policy()}, {"groups": {"drone": {}}})
    act, words = DAMAGE[damage]
    act(tmp_path)
    with pytest.raises(RookeryError, match=words):
        load_policy(tmp_path)


def test_policies_of_other_sizes_are_refused():
    with pytest.raises(RookeryError, match="takes 5 observations and gives 2 actions, the task has 3 and 1"):
        act_with({"point": policy()}, FakeEnv(2))
    with pytest.raises(RookeryError, match="2 agents and 0 policies"):
        act_with({"drone": policy()}, FakeEnv(2, agents=2))
