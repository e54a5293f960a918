"""Hierarchies: what skills observe, who decides when, and the policy that both levels make."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from noisy import Noisy
from policies_fake import FakeEnv
from policies_toy import train
from skilled import constant, skilled
from torch import Tensor

import rookery
from rookery.experiments.runs import open_run
from rookery.experiments.skills import with_skills
from rookery.policies.algorithms.ppo import PPO, PPOConfig
from rookery.policies.hierarchy.hierarchy import Hierarchy, SkillSource, high_level, make_hierarchy
from rookery.policies.hierarchy.skill_set import skills_of
from rookery.policies.policy import Policy
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.standard import standard
from rookery.policies.training.evaluate import act_with
from rookery.policies.training.runner import Runner
from rookery.policies.training.settings import RunnerConfig
from rookery.sim.actions import check_actions
from rookery.sim.env import StepResult
from rookery.sim.env_wrapper import EnvWrapper
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Discrete, Group, Term

HOVER = """
every = 5
[skills.go]
policy = "drone-hover"
shift.position_error = 0.5
shift.linear_velocity = 2.0
[skills.stay]
policy = "drone-hover"
every = 3
finished = "norm(position_error) < 0.4"
allowed = "norm(position_error) < 1.5"
"""


@pytest.fixture
def hover(tmp_path: Path) -> Path:
    file = tmp_path / "hover.toml"
    file.write_text(HOVER)
    return file


def decisions(env: Any, seed: int) -> Tensor:
    """Random actions [N, A, D] of a group whose first component chooses."""
    (group,) = env.groups.values()
    g = torch.Generator().manual_seed(seed)
    out = torch.rand(env.num_envs, group.count, group.action.size, generator=g) * 2.4 - 1.2
    for k, choice in enumerate(group.action.choices):
        out[..., k] = torch.randint(0, len(choice.options), out.shape[:2], generator=g).float()
    return out


def random_policy(group: Group, seed: int, memory: int = 0) -> Policy:
    """A policy of a group whose actions vary much."""
    action = group.action
    choose = Choose.of(action) if action.choices else None
    policy = Policy(standard(group.observation_size, action.outputs, (8,), memory_size=memory, choose=choose)).eval()
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for x in policy.parameters():
            x.normal_(0.0, 0.7, generator=g)
    return policy


def test_a_shift_moves_the_point_at_which_the_skill_hovers(tmp_path: Path) -> None:
    file = tmp_path / "skills.toml"
    file.write_text('[skills.hover]\npolicy = "drone-hover"\nshift.position_error = 0.5\n')
    env = rookery.make("drone-hover", 3, skills=file)
    assert env.groups["drone"].action.high == (0.5, 0.5, 0.5)
    assert env.deciding is None  # every control step
    obs, _ = env.reset(seed=0)
    command = torch.tensor([[[0.4, 0.0, 0.0]], [[0.0, -0.6, 0.2]], [[0.0, 0.0, 0.0]]])
    for _ in range(500):
        obs, *_ = env.step(command)
    error = obs["drone"][..., env.groups["drone"].slices()["position_error"]]
    assert torch.allclose(error, -0.5 * command, atol=0.05)  # it hovers where the shifted error is 0


def test_the_skill_acts_on_its_own_terms_of_the_observation(hover: Path) -> None:
    env = rookery.make("drone-track", 6, skills=hover)
    policies, contract = open_run(Path("drone-hover"))
    skill = contract.groups["drone"].spec
    base = env.acting.groups["drone"]
    given: list[Tensor] = []
    step = env.acting.step
    env.acting.step = lambda actions: given.append(actions["drone"].clone()) or step(actions)  # type: ignore[func-returns-value, method-assign]
    obs, _ = env.reset(seed=0)
    before = obs["drone"].clone()
    action = decisions(env, 0)
    env.step(action)
    goes = (action[..., :1] == 0.0).float()
    command = action[..., 1:].clamp(-1.0, 1.0) * goes
    own = {n: before[..., at] for n, at in base.slices().items()}
    own["position_error"] = own["position_error"] + 0.5 * command[..., :3]
    own["linear_velocity"] = own["linear_velocity"] + 2.0 * 0.5 * command[..., 3:]  # 2 m/s in units of the term's scale
    wanted = policies["drone"](torch.cat([own[t.name] for t in skill.observation], -1))
    assert torch.allclose(given[0], wanted, atol=1e-6)


class Reference:
    """Decisions of one agent, step by step in plain Python."""

    def __init__(self, steps: list[int]) -> None:
        self.steps = steps
        self.left = 0
        self.skill = 0

    def act(self, now: bool, skill: int) -> tuple[bool, int]:
        """Whether it decides, and the skill that acts."""
        decides = now or self.left <= 0
        if decides:
            self.skill, self.left = skill, self.steps[skill]
        self.left -= 1
        return decides, self.skill


SETTINGS = {
    "every": 4,
    "events": ["bell", "tap"],
    "skills": {
        "left": {"policy": "left", "finished": "state[0] < -0.5"},
        "right": {"policy": "right", "every": 7, "allowed": "state[0] < 1.5"},
    },
}


def noisy(worlds: int = 5, seed: int = 3) -> Any:
    env = Noisy(worlds, agents=2, horizon=17, seed=seed)
    group = env.groups["point"]
    return skilled(env, {"left": constant(group, -0.8), "right": constant(group, 0.6)}, **SETTINGS)


def test_everybody_decides_at_moments_of_its_own_as_a_slow_reference_does() -> None:
    env = noisy()
    n, a = 5, 2
    agents = [[Reference([4, 7]) for _ in range(a)] for _ in range(n)]
    given: list[Tensor] = []
    step = env.acting.step
    env.acting.step = lambda actions: given.append(actions["point"].clone()) or step(actions)
    obs, _ = env.reset(0)
    events: dict[str, Tensor] = {}
    counted = torch.zeros(4, dtype=torch.int64)  # by duration, by condition, by event, at an episode's start
    fresh = torch.ones(n, dtype=torch.bool)
    for t in range(120):
        assert torch.equal(env.action_mask["point"][..., 1], obs["point"][..., 0] < 1.5)
        action = decisions(env, t)
        due = env.deciding["point"]
        for i in range(n):
            for j in range(a):
                who = agents[i][j]
                if fresh[i]:
                    agents[i][j] = who = Reference([4, 7])
                finished = who.skill == 0 and bool(obs["point"][i, j, 0] < -0.5)
                event = bool(events) and (bool(events["bell"][i]) or bool(events["tap"][i, j])) and not fresh[i]
                counted += torch.tensor([who.left <= 0, finished, event, bool(fresh[i])]).long()
                decides, skill = who.act(finished or event, int(action[i, j, 0]))
                assert decides == bool(due[i, j])
                agents[i][j].skill = skill
        obs, _, terminated, truncated, info = env.step({"point": action})
        wanted = torch.tensor([[-0.8, 0.6][who.skill] for row in agents for who in row]).view(n, a, 1)
        assert torch.allclose(given[-1], wanted)
        events, fresh = info["events"], terminated | truncated
    assert (counted > 10).all()


def test_the_deployed_policy_acts_as_the_hierarchy_did() -> None:
    """With events, conditions, masks, parameters and skills with memory: a stored policy in the task itself does what the high
    level does in the hierarchy."""
    for seed, seen, part in ((0, "state", slice(0, 3)), (1, "state[1:3]", slice(1, 3))):
        envs = [Noisy(6, agents=2, horizon=19, seed=seed) for _ in range(2)]
        group = envs[0].groups["point"]
        skills = {
            "gru": {"policy": "gru", "shift": {"state": [0.5, [-0.2, 0.6], 0.1]}, "finished": "norm(state) < 1.0"},
            "plain": {"policy": "plain", "every": 5, "command": {"state": [[-1.0, 1.0], 0.3, 0.0]}},
            "again": {"policy": "plain", "every": 2, "allowed": "state[1] > -0.5"},
        }
        policies = {"gru": random_policy(group, 1, memory=5), "plain": random_policy(group, 2)}
        env = skilled(envs[0], policies, every=3, events=["tap"], skills=skills, observe=[seen])
        high = random_policy(env.groups["point"], 3)
        act = act_with({"point": high}, env)
        (deployed,) = env.deployed({"point": high}).values()
        alone = act_with({"point": deployed}, envs[1])
        one, two = env.reset(5)[0], envs[1].reset(5)[0]
        used = set()
        for _ in range(80):
            action = act(one)
            used |= set(action["point"][..., 0].flatten().tolist())
            one = env.step(action)[0]
            two = envs[1].step(alone(two))[0]
            torch.testing.assert_close(one["point"], two["point"][..., part], rtol=1e-5, atol=1e-5)
        assert used == {0.0, 1.0, 2.0}
        again = high_level(deployed)
        assert torch.equal(
            again(one["point"], action_mask=env.action_mask["point"]),
            high(one["point"], action_mask=env.action_mask["point"]),
        )


class Chosen(EnvWrapper):
    """An environment whose agents choose among constant actions, each for several control steps."""

    def __init__(self, env: FakeEnv, values: list[float], repeat: int = 1, gamma: float = 1.0) -> None:
        super().__init__(env)
        spec = ActionSpec("pick", choices=(Discrete("skill", tuple(f"s{i}" for i in range(len(values)))),))
        group = env.groups["point"]
        self.groups = {"point": Group(group.count, group.observation, spec)}
        self.values = torch.tensor(values)
        self.repeat = repeat
        self.gamma = gamma

    def step(self, actions: Any) -> StepResult:
        chosen = check_actions(self, actions)["point"].long()
        total: Any = 0.0
        for k in range(self.repeat):
            obs, reward, terminated, truncated, info = self.env.step({"point": self.values[chosen]})
            total = total + self.gamma**k * reward["point"]
        info["elapsed"] = torch.full((self.num_envs,), self.repeat)
        return obs, {"point": total}, terminated, truncated, info


def learned(env: Any, steps: int) -> dict[str, Tensor]:
    """The policy after three updates."""
    config = PPOConfig(rollout_steps=steps, minibatches=2, epochs=2, hidden=(8,), gamma=0.9, learning_rate=1e-3)
    ppo = PPO(env, config, seed=1)
    obs, _ = env.reset(0)
    train(ppo, env, obs, 3)
    ((_, policy),) = ppo.policies().items()
    ppo.close()
    return policy.state_dict()


@pytest.mark.parametrize("every", [1, 4])
def test_constant_skills_are_flat_discrete_ppo(every: int) -> None:
    """Which of three constant skills acts is what a flat policy chooses among three actions: the same bits; and where decisions
    last for four control steps, what a flat policy learns from steps that last as long."""
    values = [-1.0, 0.0, 1.0]

    def fake() -> FakeEnv:
        return FakeEnv(8, agents=2, horizon=24, limit=1e9, seed=2)

    group = fake().groups["point"]
    skills = {f"s{i}": constant(group, value) for i, value in enumerate(values)}
    hierarchy = learned(skilled(fake(), skills, every=every), 24 * every)
    flat = learned(Chosen(fake(), values, every, 0.9), 24)
    for name, x in flat.items():
        if every == 1:
            assert torch.equal(x, hierarchy[name])
        else:
            torch.testing.assert_close(x, hierarchy[name], rtol=1e-4, atol=1e-5)


def test_training_resumes_bit_for_bit_with_options_under_way(tmp_path: Path) -> None:
    def runner(folder: str, steps: int) -> Runner:
        config = PPOConfig(rollout_steps=10, minibatches=2, hidden=(8,))
        env = noisy(worlds=6)
        return Runner(PPO(env, config), RunnerConfig(total_steps=steps), tmp_path / folder, name="ppo")

    whole, half = runner("whole", 60 * 6), runner("half", 30 * 6)
    whole.run()
    half.run()
    learner = half.algorithm.learners["point"]  # type: ignore[attr-defined]
    assert 0 < int(learner.carried["has"].sum()) < 12
    rest = runner("half", 60 * 6)
    rest.load(tmp_path / "half")
    rest.run()
    for one, two in ((whole.algorithm, rest.algorithm), (whole.env, rest.env)):
        a, b = one.state_dict(), two.state_dict()
        assert a.keys() == b.keys()
        assert all(torch.equal(a[k], b[k]) for k in a)


@pytest.mark.slow
def test_shards_give_the_same_bits(tmp_path: Path) -> None:
    file = tmp_path / "skills.toml"
    file.write_text(
        'every = 4\nevents = ["touchdown_FL"]\n[skills.walk]\npolicy = "go2-velocity"\n'
        "command.command = [[-0.5, 1.0], 0.0, [-0.8, 0.8]]\n"
        '[skills.stand]\npolicy = "go2-velocity"\ncommand.command = [0.0, 0.0, 0.0]\n'
    )
    envs = [
        rookery.make("go2-velocity", 4, seed=1, randomize="default", config={"history": 5}, shards=shards, skills=file)
        for shards in (1, 2)
    ]
    first, _ = envs[0].reset()
    assert torch.equal(first["robot"], envs[1].reset()[0]["robot"])
    some = False
    for t in range(25):
        one, two = (env.step(decisions(env, t)) for env in envs)
        assert torch.equal(one[0]["robot"], two[0]["robot"]) and torch.equal(one[1]["robot"], two[1]["robot"])
        now = envs[0].deciding["robot"]  # type: ignore[index]
        some |= bool(now.any()) and not bool(now.all())
        assert torch.equal(now, envs[1].deciding["robot"])  # type: ignore[index]
    assert some
    for env in envs:
        env.close()


def test_a_saved_state_continues_exactly(hover: Path) -> None:
    env, other = (rookery.make("drone-track", 3, seed=s, randomize="default", skills=hover) for s in (1, 2))
    for e in (env, other):
        e.reset()
        e.step(decisions(e, 0))
    other.load_state_dict(env.state_dict())
    for t in range(6):
        assert torch.equal(env.step(decisions(env, t))[0]["drone"], other.step(decisions(env, t))[0]["drone"])
    with pytest.raises(ValueError, match=r"lacks 'hierarchy.drone.left'"):
        other.load_state_dict(env.acting.state_dict())


def test_the_controller_reads_all_groups_after_a_resume_too(tmp_path: Path) -> None:
    file = tmp_path / "tag.toml"
    text = 'every = 4\ngroup = "pursuer"\n[skills.chase]\npolicy = "controller"\n[skills.wait]\npolicy = "controller"\n'
    file.write_text(text)
    envs = [rookery.make("drone-tag", 3, seed=s, randomize="default", skills=file) for s in (1, 2)]
    given: list[Any] = []
    for env in envs:
        own = env._controller

        def controller(obs: dict[str, Tensor], own: Any = own) -> dict[str, Tensor]:
            given.append({g: x.clone() for g, x in obs.items()})
            return own(obs)

        env._controller = controller
        env.reset()
    idle = {g: torch.zeros(3, spec.count, spec.action.size) for g, spec in envs[0].groups.items()}
    envs[0].step(idle)
    envs[1].load_state_dict(envs[0].state_dict())
    given.clear()
    for env in envs:
        env.step(idle)
    assert given[0].keys() == given[1].keys() == envs[0].groups.keys()
    assert all(torch.equal(x, given[1][g]) for g, x in given[0].items())


# Refusals


def test_a_skill_gets_another_term_of_the_task_in_place_of_its_own(tmp_path: Path) -> None:
    """Beside one of the same policy that does not: it takes the drone's own velocity for the target's, and shifts that."""
    file = tmp_path / "skills.toml"
    file.write_text(
        '[skills.own]\npolicy = "swarm-surround"\n[skills.other]\npolicy = "swarm-surround"\n'
        'remap.target_velocity = "linear_velocity"\nshift.target_velocity = 1.0\n'
    )
    env = rookery.make("swarm-surround", 3, skills=file)
    policies, contract = open_run(Path("swarm-surround"))
    skill = contract.groups["drone"].spec
    base = env.acting.groups["drone"]
    given: list[Tensor] = []
    step = env.acting.step
    env.acting.step = lambda actions: given.append(actions["drone"].clone()) or step(actions)  # type: ignore[func-returns-value, method-assign]
    obs, _ = env.reset(seed=0)
    for _ in range(5):  # until they move
        obs, *_ = env.step(decisions(env, 0))
    action = decisions(env, 1)
    assert len(action[..., 0].unique()) == 2
    own = {n: obs["drone"][..., at] for n, at in base.slices().items()}
    env.step(action)
    remapped = action[..., :1] == 1.0
    shifted = own["linear_velocity"] + 0.5 * action[..., 1:].clamp(-1.0, 1.0)  # in units of the term's scale
    assert (own["target_velocity"] - own["linear_velocity"]).abs().max() > 0.01
    own["target_velocity"] = torch.where(remapped, shifted, own["target_velocity"])
    wanted = policies["drone"](torch.cat([own[t.name] for t in skill.observation], -1))
    assert torch.allclose(given[-1], wanted, atol=1e-6)


def remapped(
    own: tuple[Term, ...], ours: tuple[Term, ...], frames: tuple[int, int] = (1, 1)
) -> tuple[Hierarchy, Policy]:
    """The hierarchy of a task that observes `ours`, whose only skill observes `own` and gets "a" as its "x", shifted by up to
    0.5; and the skill's policy."""
    action = ActionSpec("push", ("force",), (-1.0,), (1.0,), ("N",), (0.0,))
    theirs, group = (Group(1, terms, action, history=h) for terms, h in zip((own, ours), frames, strict=True))
    policy = random_policy(theirs, 1)
    skills = skills_of({"skills": {"s": {"policy": "p", "remap": {"x": "a"}, "shift": {"x": 0.5}}}})
    return make_hierarchy(skills, group, {"p": SkillSource(policy, theirs, 0.02)}, "toy", 0.02), policy


def test_a_remapped_term_is_taken_from_each_of_the_newest_frames() -> None:
    """The task has longer frames than the skill, more of them, and its terms in another order."""
    a, b, c, x = Term("a", 3, "m", scale=2.0), Term("b", 2, "1"), Term("c", 1, "1"), Term("x", 3, "m", scale=2.0)
    hierarchy, policy = remapped((b, c, x), (c, a, Term("extra", 4, "1"), b), (2, 3))
    g = torch.Generator().manual_seed(0)
    frames = torch.randn(7, 3, 10, generator=g)
    decision = torch.rand(7, 3, generator=g) * 2.0 - 1.0
    seen = [torch.cat((f[:, 8:], f[:, :1], f[:, 1:4] + 0.5 * 2.0 * decision), 1) for f in (frames[:, 1], frames[:, 2])]
    given = hierarchy.module()(torch.cat((frames.flatten(1), decision), 1))
    assert torch.allclose(given, policy(torch.cat(seen, 1)), atol=1e-6)


@pytest.mark.parametrize(
    ("term", "frames", "message"),
    [
        (Term("a", 3, "m", "world"), (1, 1), "in other units, axes, scale or limits than 'a' of toy"),
        (Term("a", 3, "m", "body", clip=2.0), (1, 1), "in other units, axes, scale or limits than 'a' of toy"),
        (Term("a", 3, "m", "body", hidden=True), (1, 1), "in other units, axes, scale or limits than 'a' of toy"),
        (Term("a", 3, "m", "body"), (2, 1), "observes 2 frames, and toy gives 1"),
    ],
)
def test_a_term_that_differs_is_no_other_terms_stand_in(term: Term, frames: tuple[int, int], message: str) -> None:
    own = (Term("x", 3, "m", "body"),)
    remapped(own, (Term("a", 3, "m", "body"),))  # which does not differ
    with pytest.raises(RookeryError, match=message):
        remapped(own, (term,), frames)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the set has no skill"),
        ("[skills.a]\npolicy = 3\n", "skills.a.policy"),
        ("every = 0\n[skills.a]\npolicy = 'drone-hover'\n", "every is 0: give a number of control steps"),
        ("evry = 1\n[skills.a]\npolicy = 'drone-hover'\n", "did you mean 'every'.*observe, skills"),
        ("[skill.a]\npolicy = 'drone-hover'\n", "'skill': did you mean 'skills'"),
        ("observe = ['upp']\n[skills.a]\npolicy = 'drone-hover'\n", "observe 'upp': did you mean 'up'"),
        (
            "[skills.a]\npolicy = 'drone-hover'\nfinished = 'norm(upp) > 1'\n",
            "finished of the skill 'a' 'upp': did you mean",
        ),
        (
            "[skills.a]\npolicy = 'drone-hover'\nshift.position_error = -0.5\n",
            "largest shift of a component is above 0",
        ),
        ("observe = ['up', 'up']\n[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\n", "name each once"),
        ("observe = ['up[0:2]', 'up[1:3]']\n[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\n", "name each once"),
        ("[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\nfinished = 'norm(up) < 0'\n", "a norm is never below 0"),
        ("[skills.a]\npolicy = 'drone-hover'\n", "leaves nothing to decide"),
        ("[skills.a]\npolicy = 'nobody'\n", "there is no folder 'nobody'"),
        ("[skills.a]\npolicy = 'go2-velocity'\n", "acts every 0.02 s, and drone-hover every 0.01 s"),
        (
            "[skills.a]\npolicy = 'drone-track'\nshift.position_error = 1.0\n",
            "observes 'reference_ahead', and drone-hover has none",
        ),
        ("[skills.a]\npolicy = 'drone-hover'\nshift.height = 1.0\n", "term that the skill 'a' observes 'height'"),
        (
            "[skills.a]\npolicy = 'drone-hover'\nshift.position_error = [1.0]\n",
            "has 1 values, and the term 3 components",
        ),
        ("[skills.a]\npolicy = 'drone-hover'\nshift.position_error = 'far'\n", "give numbers, or"),
        (
            "[skills.a]\npolicy = 'drone-hover'\ncommand.position_error = [[1, 0], 0, 0]\n",
            "least value of a component is below",
        ),
        (
            "[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\nallowed = 'up[2] > 0'\n",
            "every skill has a condition `allowed`",
        ),
        (
            "[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\nfinished = 'up > 0'\n",
            r"write up\[0\] to up\[2\], or norm",
        ),
        ("[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\nfinished = 'soon'\n", "is 'soon': write"),
        ("events = ['goal']\n[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\n", "event of drone-hover 'goal'"),
        (
            "observe = ['goal']\n[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\n",
            "term of drone-hover to observe 'goal'",
        ),
        (
            "observe = ['up[1:4]']\n[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\n",
            r"observe has 'up\[1:4\]', and 'up' of drone-hover has the components 0 to 2",
        ),
        ("group = 'dog'\n[skills.a]\npolicy = 'drone-hover'\nshift.up = 1.0\n", "no group 'dog'"),
        ("[skills.a]\npolicy = 'controller'\nshift.up = 1.0\n", "classical controller, without parameters"),
        ("[skills.a]\npolicy = 'controller'\nremap.up = 'up'\n", "classical controller, without parameters"),
        ("[skills.a]\npolicy = 'drone-hover'\nremap.height = 'up'\n", "term that the skill 'a' observes 'height'"),
        (
            "[skills.a]\npolicy = 'drone-hover'\nremap.up = 'height'\n",
            "term of drone-hover in remap.up of the skill 'a' 'height'",
        ),
        (
            "[skills.a]\npolicy = 'drone-hover'\nremap.up = 'position_error'\nshift.up = 0.1\n",
            "observes 'up' in other units, axes, scale or limits than 'position_error' of drone-hover: remap it to a term with",
        ),
        (
            "[skills.a]\npolicy = 'drone-hover'\nremap.up = 'up'\ncommand.up = [0, 0, [-1, 1]]\n",
            "both commands and remaps 'up'",
        ),
    ],
)
def test_what_no_hierarchy_can_be_is_refused_in_one_sentence(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "skills.toml"
    file.write_text(text)
    with pytest.raises(RookeryError, match=message):
        rookery.make("drone-hover", skills=file)


def test_commands_that_a_skill_was_not_trained_with_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "skills.toml"
    for command, beyond in (("[[-0.6, 1.0], 0.4, 0.0]", None), ("[[-0.6, 1.1], 0, 0]", 0), ("[0, -0.5, 0]", 1)):
        file.write_text(
            f'[skills.a]\npolicy = "go2-velocity"\ncommand.command = {command}\n[skills.b]\npolicy = "controller"\n'
        )
        if beyond is None:
            rookery.make("go2-velocity", config={"history": 5}, skills=file).close()
            continue
        with pytest.raises(RookeryError, match=rf"for its value {beyond}, and go2-velocity was trained with -0"):
            rookery.make("go2-velocity", config={"history": 5}, skills=file)


def test_skills_of_another_robot_action_or_history_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "skills.toml"
    file.write_text('[skills.a]\npolicy = "drone-hover"\nshift.up = 0.1\n')
    with pytest.raises(RookeryError, match=r"acts by 'ctbr' .* and drone-hover by 'rotor_thrust' .* kind by --action"):
        rookery.make("drone-hover", config={"action": "rotor_thrust"}, skills=file)
    file.write_text('[skills.a]\npolicy = "go2-velocity"\ncommand.command = [[0, 1], 0, 0]\n')
    with pytest.raises(
        RookeryError, match=r"observes 5 frames, and go2-velocity gives 1: set its config value history=5"
    ):
        rookery.make("go2-velocity", skills=file)
    with pytest.raises(RookeryError, match=r"there is no file .*none\.toml.* of skills"):
        rookery.make("drone-hover", skills=tmp_path / "none.toml")
    with pytest.raises(RookeryError, match="set of tasks"):
        rookery.make("MT10", 10, skills=file)
    file.write_text('[skills.a]\npolicy = "controller"\n[skills.b]\npolicy = "controller"\n')
    with pytest.raises(RookeryError, match="no classical controller that could be a skill"):
        with_skills(FakeEnv(), file)


def test_the_classical_controller_is_a_skill(tmp_path: Path) -> None:
    file = tmp_path / "skills.toml"
    file.write_text('[skills.pid]\npolicy = "controller"\n[skills.net]\npolicy = "drone-hover"\nevery = 2\n')
    env = rookery.make("drone-hover", 4, seed=0, skills=file)
    alone = rookery.make("drone-hover", 4, seed=0)
    pilot = alone.controller()
    assert pilot is not None
    one, two = env.reset()[0], alone.reset()[0]
    for _ in range(20):
        one = env.step(torch.zeros(4, 1, 1))[0]
        two = alone.step(pilot(two))[0]
    assert torch.equal(one["drone"], two["drone"])
    (deployed,) = env.deployed({"drone": random_policy(env.groups["drone"], 0)}).values()
    act = act_with({"drone": deployed}, alone)
    assert torch.isfinite(act(two)["drone"]).all()
    assert "classical controller, which cannot be exported" in deployed.chain.c_refused
