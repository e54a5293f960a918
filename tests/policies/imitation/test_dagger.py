"""DAgger where only the teacher observes the velocity that actions must follow; resume; what is refused."""

from __future__ import annotations

import pytest
import torch
from policies_drift import Drift
from policies_toy import ToyEnv, train

from rookery.policies.imitation.dagger import DAgger, DAggerConfig
from rookery.policies.imitation.regression import ActionRegression
from rookery.policies.imitation.teacher import ControllerTeacher, Teacher, _join
from rookery.sim.errors import RookeryError
from rookery.sim.specs import Term

CONFIG = DAggerConfig(rollout_steps=16, teacher_share=0.1, hidden=(32,), batch=512, epochs=4, learning_rate=3e-3)


class VelocityTeacher(Teacher):
    """Acts like the velocity, which it reads from the environment; counts how often it is asked."""

    def __init__(self, env: Drift) -> None:
        self.env = env
        self.asked = torch.zeros((), dtype=torch.int64)

    def act(self, obs):
        self.asked += 1
        return {"point": 2.0 * self.env.privileged_targets["point"][..., :1]}  # of which the target is half

    def state_dict(self):
        return {"asked": self.asked}

    def load_state_dict(self, state):
        self.asked.copy_(state["asked"])


def iterate(algorithm, updates: int):
    """Train from a new episode with the progress of a runner."""
    obs, _ = algorithm.env.reset()
    algorithm.env.stagger()
    figures = []
    for i in range(updates):
        for _ in range(algorithm.rollout_steps):
            actions = algorithm.act(obs)
            result = algorithm.env.step(actions)
            algorithm.observe(obs, actions, result)
            obs = result[0]
        figures.append(algorithm.update(i / updates))
    return figures


@pytest.mark.slow
def test_a_student_with_history_learns_what_its_teacher_observes():
    def error(history: int) -> float:
        env = Drift(32, history, agents=2)
        dagger = DAgger(env, CONFIG, inputs={"teacher": VelocityTeacher(env)})
        figures = iterate(dagger, 40)
        assert set(figures[0]) == {"point/loss", "error", "reward"}
        student = dagger.policies()["point"]
        assert student.observation_size == history
        env = Drift(32, history, agents=2)
        errors = []
        obs, _ = env.reset()
        for _ in range(19):
            obs, *_ = env.step({"point": student(obs["point"])})
            errors.append((student(obs["point"]) - env.v).square().mean().item())
        return sum(errors[:-1]) / 18  # all but the first frame of the next episode

    # Knowing nothing, the error is the variance of a velocity, 1/3.
    blind = error(1)
    informed = error(2)
    assert blind > 0.25 and informed < 0.01, (blind, informed)


def test_the_teacher_acts_less_and_less():
    env = Drift(400)
    shares = []
    step = env.step

    def noting(actions):
        shares.append((actions["point"] == 2.0 * env.privileged_targets["point"][..., :1]).float().mean().item())
        return step(actions)

    env.step = noting
    config = DAggerConfig(rollout_steps=2, teacher_share=0.8, hidden=(8,), keep_rollouts=2)
    iterate(DAgger(env, config, inputs={"teacher": VelocityTeacher(env)}), 6)
    # A rollout's share follows the progress of the update before it: 0, 0, 1/6, 2/6, 3/6, 4/6.
    assert shares[:4] == [1.0] * 4
    assert shares[4::2] == pytest.approx([1 - p / 6 / 0.8 for p in (1, 2, 3, 4)], abs=0.1)
    assert shares[0::2] == shares[1::2], "the same worlds through a rollout"
    without = DAggerConfig(rollout_steps=2, teacher_share=0.0, hidden=(8,))
    shares.clear()
    iterate(DAgger(env, without, inputs={"teacher": VelocityTeacher(env)}), 2)
    assert shares == [0.0] * 4


def test_agents_that_take_no_part_teach_nothing():
    class First(Drift):
        active = {"point": torch.arange(2).expand(16, 2) == 0}  # noqa: RUF012

    students = []
    for garbage in (False, True):
        env = First(16, agents=2)

        class Garbage(VelocityTeacher):
            def act(self, obs, garbage=garbage):
                actions = super().act(obs)
                actions["point"][:, 1] += 0.3 * garbage
                return actions

        config = DAggerConfig(teacher_share=0.0, hidden=(8,))
        dagger = DAgger(env, config, inputs={"teacher": Garbage(env)})
        iterate(dagger, 3)
        students.append(dagger.policies()["point"])
    # Their actions do not move the points, so that both students had the same observations.
    for a, b in zip(*(s.state_dict().values() for s in students), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("before", [0, 1, 3, 7])
def test_a_resume_is_bit_equal(before: int):
    """With fewer rollouts than are kept, and with more."""

    def make() -> DAgger:
        env = ToyEnv(4, agents=2, drop_out=True)
        config = DAggerConfig(rollout_steps=5, keep_rollouts=3, hidden=(8,), batch=16)
        return DAgger(env, config, seed=2, inputs={"teacher": ControllerTeacher(env.controller())})

    dagger = make()
    obs, _ = train(dagger, dagger.env, dagger.env.reset()[0], before)
    other = make()
    other.load_state_dict({k: v.clone() for k, v in dagger.state_dict().items()})
    other.env.load_state_dict(dagger.env.state_dict())
    ends = [train(d, d.env, {k: v.clone() for k, v in obs.items()}, 4)[1] for d in (dagger, other)]
    assert ends[0] == ends[1]
    mine = dagger.state_dict()
    its = other.state_dict()
    assert mine.keys() == its.keys() and all(torch.equal(mine[k], its[k]) for k in mine)


def test_the_teachers_state_is_saved():
    env = Drift(4)
    dagger = DAgger(env, DAggerConfig(rollout_steps=3, hidden=(8,)), inputs={"teacher": VelocityTeacher(env)})
    iterate(dagger, 2)
    other = DAgger(env, DAggerConfig(rollout_steps=3, hidden=(8,)), inputs={"teacher": VelocityTeacher(env)})
    other.load_state_dict(dagger.state_dict())
    assert other.teacher.asked == 6
    state = {k: v.clone() for k, v in dagger.state_dict().items()}
    with pytest.raises(RookeryError, match=r"lacks 'point.network.parameters'"):
        other.load_state_dict({k: v for k, v in state.items() if k != "point.network.parameters"})


def test_a_resume_keeps_the_share_of_the_teacher():
    def make() -> DAgger:
        env = ToyEnv(64)
        config = DAggerConfig(rollout_steps=2, teacher_share=1.0, hidden=(8,))
        return DAgger(env, config, seed=2, inputs={"teacher": ControllerTeacher(env.controller())})

    dagger = make()
    obs, _ = dagger.env.reset()
    for _ in range(2):
        dagger.observe(obs, actions := dagger.act(obs), dagger.env.step(actions))
    dagger.update(0.75)
    other = make()
    other.load_state_dict({k: v.clone() for k, v in dagger.state_dict().items()})
    wanted = dagger.act(obs)["point"]
    assert torch.equal(other.act(obs)["point"], wanted)
    share = (wanted == dagger.teacher.act(obs)["point"]).float().mean().item()
    assert 0.05 < share < 0.5  # a quarter of the worlds


def test_the_latest_rollouts_are_kept():
    env = Drift(4)
    config = DAggerConfig(rollout_steps=2, keep_rollouts=3, hidden=(8,))
    dagger = DAgger(env, config, inputs={"teacher": VelocityTeacher(env)})
    obs, _ = env.reset()
    rollouts = []
    for i in range(5):
        rows = []
        for _ in range(2):
            rows.append(obs["point"].clone())
            actions = dagger.act(obs)
            result = env.step(actions)
            dagger.observe(obs, actions, result)
            obs = result[0]
        rollouts.append(torch.stack(rows))
        dagger.update(i / 5)
    kept = dagger.students["point"].observation
    for rollout in rollouts[2:]:
        assert sum(torch.equal(rollout, row) for row in kept) == 1


def test_misfits_are_refused():
    env = Drift()

    class Wide(VelocityTeacher):
        def act(self, obs):
            return {"point": torch.zeros(64, 1, 2)}

    dagger = DAgger(env, CONFIG, inputs={"teacher": Wide(env)})
    with pytest.raises(RookeryError, match=r"gives actions \(64, 1, 2\), and group 'point' takes \(64, 1, 1\)"):
        dagger.act(env.reset()[0])
    with pytest.raises(RookeryError, match="needs a teacher"):
        DAgger(env, CONFIG)
    for name, value in (
        ("keep_rollouts", 0),
        ("teacher_share", 1.5),
        ("batch", 0),
        ("learning_rate", 0.0),
        ("final_rate", 1.5),
        ("final_rate", -0.1),
    ):
        with pytest.raises(RookeryError, match=f"{name} is {value}"):
            DAggerConfig(**{name: value})


def test_a_teachers_terms_have_its_own_scales_and_limits():
    """The environment gives 3 m/s at 2 a m/s; the teacher was trained at 0.5 a m/s, within 1."""
    given = {"v": (torch.tensor([[[6.0, -1.0]]]), 2.0), "x": (torch.tensor([[[4.0]]]), 1.0)}
    joined = _join(given, (Term("x", 1), Term("v", 2, "m/s", scale=0.5, clip=1.0)))
    torch.testing.assert_close(joined, torch.tensor([[[4.0, 1.0, -0.25]]]))


def test_the_learning_rate_falls_to_a_tenth():
    group = Drift(4).groups["point"]
    moves = []
    for progress in (0.0, 0.5, 1.0):
        network = ActionRegression(group, CONFIG, torch.Generator().manual_seed(0))
        before = network.state_dict()["parameters"].clone()
        network.learn(torch.ones(4, group.observation_size), torch.ones(4, 1), progress)
        moves.append((network.state_dict()["parameters"] - before).norm().item())
    assert [move / moves[0] for move in moves] == pytest.approx([1.0, 0.55, 0.1], rel=1e-3)


def test_a_student_learns_from_the_rollouts_that_are_stored(monkeypatch):
    """1, 2 and 3 of at most 3, and never from rows that nothing was written to."""
    env = Drift(4)
    config = DAggerConfig(rollout_steps=2, keep_rollouts=3, epochs=1, hidden=(4,), batch=64)
    dagger = DAgger(env, config, inputs={"teacher": VelocityTeacher(env)})
    sizes = []
    learn = ActionRegression.learn

    def noting(self, obs, expert_actions, progress, weights, rows):
        assert sorted(rows.tolist()) == list(range(len(obs)))
        sizes.append(len(obs))
        return learn(self, obs, expert_actions, progress, weights, rows)

    monkeypatch.setattr(ActionRegression, "learn", noting)
    iterate(dagger, 5)
    assert sizes == [2 * 4 * stored for stored in (1, 2, 3, 3, 3)]


class Listening(ControllerTeacher):
    """Notes which worlds it is told to have ended."""

    def __init__(self, env: ToyEnv) -> None:
        super().__init__(env.controller())
        self.told: list[torch.Tensor] = []

    def observe_ends(self, ended):
        self.told.append(ended.clone())


def test_the_teacher_is_told_of_terminated_and_of_truncated_episodes():
    env = ToyEnv(16, horizon=6, limit=0.3)
    teacher = Listening(env)
    dagger = DAgger(env, DAggerConfig(rollout_steps=12, hidden=(4,)), inputs={"teacher": teacher})
    ends = []
    step = env.step

    def noting(actions):
        out = step(actions)
        ends.append(out[2:4])
        return out

    env.step = noting
    train(dagger, env, env.reset()[0], 1)
    terminated, truncated = (torch.stack(kind) for kind in zip(*ends, strict=True))
    assert terminated.any() and truncated.any()
    assert torch.equal(torch.stack(teacher.told), terminated | truncated)


def test_the_normalizer_counts_those_who_take_part_alone():
    env = ToyEnv(8, agents=2, drop_out=True)
    dagger = DAgger(
        env, DAggerConfig(rollout_steps=12, hidden=(4,)), inputs={"teacher": ControllerTeacher(env.controller())}
    )
    act, rows = dagger.act, []

    def noting(obs):
        rows.append(obs["point"][env.active["point"]])
        return act(obs)

    dagger.act = noting
    train(dagger, env, env.reset()[0], 2)
    seen = torch.cat(rows)
    assert len(seen) < 2 * 12 * 8 * 2
    policy = dagger.policies()["point"]
    torch.testing.assert_close(policy.get_buffer("normalize.mean"), seen.mean(0))
    torch.testing.assert_close(policy.get_buffer("normalize.std"), seen.std(0, correction=0))


def test_a_controller_teaches_within_the_range_of_actions():
    teacher = ControllerTeacher(lambda obs: {name: 3.0 * x for name, x in obs.items()})
    given = teacher.act({"point": torch.tensor([[[0.2]], [[0.5]], [[-4.0]]])})["point"]
    torch.testing.assert_close(given.flatten(), torch.tensor([0.6, 1.0, -1.0]))
