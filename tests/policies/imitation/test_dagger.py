"""Teacher and student, where only the teacher sees the velocity that actions must follow."""

from __future__ import annotations

import pytest
import torch
from policies_drift import Drift

from rookery.policies.imitation.dagger import DistillConfig, distill, privileged
from rookery.policies.policy import Policy
from rookery.sim.errors import RookeryError

CONFIG = DistillConfig(
    iterations=40, steps=16, teacher_iterations=5, hidden=(32,), batch=512, epochs=4, learning_rate=3e-3
)


def teacher() -> Policy:
    """Acts like the velocity, which it is told at half its value."""
    policy = Policy(1, 1, ())
    with torch.no_grad():
        policy.layers[0].weight.fill_(2.0)
        policy.layers[0].bias.zero_()
    return policy


def velocity(env: Drift) -> torch.Tensor:
    return env.privileged_targets["point"][..., :1]


def test_a_student_with_history_learns_what_its_teacher_sees():
    def error(history: int) -> float:
        rows = []
        student = distill(Drift(32, history, agents=2), privileged(teacher(), velocity), CONFIG, rows.append)
        assert [row["iteration"] for row in rows] == list(range(1, CONFIG.iterations + 1))
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
    seeing = error(2)
    assert blind > 0.25 and seeing < 0.01, (blind, seeing)


def test_the_teacher_acts_less_and_less():
    env = Drift(400)
    given = []
    step = env.step

    def noting(actions):
        given.append((actions["point"] == 2.0 * velocity(env)).float().mean().item())
        return step(actions)

    env.step = noting
    distill(
        env,
        privileged(teacher(), velocity),
        DistillConfig(iterations=5, steps=2, teacher_iterations=4, hidden=(8,), keep=2),
    )
    assert given[:2] == [1.0, 1.0] and given[-2:] == [0.0, 0.0]
    assert given[2:8:2] == pytest.approx([0.75, 0.5, 0.25], abs=0.1)


def test_agents_that_take_no_part_teach_nothing():
    students = []
    for garbage in (False, True):
        env = Drift(16, agents=2)
        env.taking_part = {"point": torch.arange(2).expand(16, 2) == 0}

        def seen(env: Drift, garbage: bool = garbage) -> torch.Tensor:
            x = velocity(env).clone()
            x[:, 1] = 0.3 if garbage else x[:, 1]
            return x

        students.append(
            distill(env, privileged(teacher(), seen), DistillConfig(iterations=3, teacher_iterations=0, hidden=(8,)))
        )
    # Their actions do not move the points, so that both students saw the same.
    for a, b in zip(*(s.state_dict().values() for s in students), strict=True):
        assert torch.equal(a, b)


def test_misfits_are_refused():
    with pytest.raises(RookeryError, match=r"takes 1 observations, and is given \(64, 1, 3\)"):
        distill(Drift(), privileged(teacher(), lambda env: env.privileged_targets["point"]), CONFIG)
    with pytest.raises(RookeryError, match=r"gives actions \(64, 1, 2\), and group 'point' takes \(64, 1, 1\)"):
        distill(Drift(), privileged(Policy(1, 2), velocity), CONFIG)
    two = Drift()
    two.groups["other"] = two.groups["point"]
    with pytest.raises(RookeryError, match="teaches one group"):
        distill(two, privileged(teacher(), velocity), CONFIG)
    with pytest.raises(RookeryError, match="keep is 0"):
        DistillConfig(keep=0)
