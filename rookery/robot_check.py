"""Tries a robot from a file in the tasks of its family: what it can do, what standing earns beside falling, and whether it can
do what the tasks will command."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rookery.making import make
from rookery.robots.own.legs import forward
from rookery.robots.own.result import OwnRobot
from rookery.robots.quadrupeds.model import PARTS, QuadrupedModel
from rookery.robots.quadrupeds.quadruped import leg_chains
from rookery.sim.env import Env
from rookery.sim.envs.vec_env import VecEnv
from rookery.sim.multirotor.parameters import GRAVITY

WORLDS = 8
SECONDS = 4.0
SIZE = (960, 720)  # pixels of the picture
SAMPLES = 20_000  # angles of a leg that are tried
LEVEL = 0.05  # of the leg's length: how far from the ground a foot in stance may be
Act = Callable[[Any, dict[str, Tensor], int], dict[str, Tensor]]


@dataclass
class Check:
    """Result of a robot's trial.

    Attributes:
        facts: of the robot, name to a sentence's end with units.
        tasks: by task, what the robot earned and can reach, in sentences.
        figures: the numbers of both, SI units.
        problems: what speaks against training it, in sentences.
    """

    facts: dict[str, str] = field(default_factory=dict)
    tasks: dict[str, list[str]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)


def check_robot(robot: OwnRobot[Any], picture: Path | None = None) -> Check:
    """Try a robot, and draw it at home.

    Args:
        robot: as `robots.load` gives it.
        picture: .png file; None draws nothing.

    Raises:
        RookeryError: a task refuses the robot, or nothing here can draw.
    """
    out = Check()
    {"quadruped": _quadruped, "drone": _drone, "arm": _arm}[robot.family](out, robot, picture)
    return out


def _task(env: Env) -> Any:
    inner = env.unwrapped
    assert isinstance(inner, VecEnv)
    return inner.task


# What it earns


def returns(env: Env, act: Act) -> Tensor:
    """[N] of episodes of SECONDS that end where the robot falls or crashes; one agent in each world."""
    obs, _ = env.reset(seed=0)
    total = torch.zeros(env.num_envs)
    goes_on = torch.ones(env.num_envs)
    (group,) = env.groups
    for step in range(min(round(SECONDS / env.control_dt), env.max_episode_steps)):
        obs, reward, terminated, truncated, _ = env.step(act(env, obs, step))
        total += goes_on * reward[group][:, 0]
        goes_on *= (~(terminated | truncated)).float()
    return total


def _still(env: Any, obs: dict[str, Tensor], step: int) -> dict[str, Tensor]:
    return {g: torch.tensor(s.action.neutral).expand(env.num_envs, s.count, -1) for g, s in env.groups.items()}


def _compare(out: Check, task: str, doing: tuple[str, Tensor], others: dict[str, Tensor]) -> None:
    """Say what the right thing earns beside the wrong ones, and call it a problem where that is less."""
    name, right = doing
    wrong = ", ".join(f"{other} {float(v.mean()):.0f}" for other, v in others.items())
    out.tasks.setdefault(task, []).append(f"in {SECONDS:g} s {name} earns {float(right.mean()):.0f}; {wrong}")
    out.figures |= {f"{task}: {key}": float(v.mean()) for key, v in {name: right, **others}.items()}
    for other, value in others.items():
        if not float(right.mean()) > float(value.mean()):
            out.problems.append(f"{task}: {other} earns more than {name}: learning would find that first.")


def _draw(env: Env, picture: Path | None) -> None:
    """A picture of the first world as it is."""
    if picture is None:
        return
    from rookery.sim.rendering.renderer import Renderer
    from rookery.sim.rendering.video import contact_sheet

    with Renderer(env.visual_model(0), width=SIZE[0], height=SIZE[1], camera=env.camera) as renderer:
        image = renderer.render(env.mj_data(0))
    contact_sheet([image], picture, columns=1, rows=1, width=SIZE[0])


# Quadrupeds


def _limp(env: Any, obs: dict[str, Tensor], step: int) -> dict[str, Tensor]:
    """Targets where the joints are: servos that only damp."""
    robot = task_of(env).robot
    return {"robot": robot.normalized(robot.pos)[:, None]}


def _fold(env: Any, obs: dict[str, Tensor], step: int) -> dict[str, Tensor]:
    """Thighs and knees bent as far as actions go."""
    side = torch.tensor(task_of(env).model.home[2::3]).sign()
    out = _still(env, obs, step)["robot"].clone()
    out[..., 1::3] = -side
    out[..., 2::3] = side
    return {"robot": out}


def task_of(env: Env) -> Any:
    """The task of an environment of one task."""
    inner = env.unwrapped
    assert isinstance(inner, VecEnv)
    return inner.task


def _quadruped(out: Check, robot: OwnRobot[QuadrupedModel], picture: Path | None) -> None:
    m = robot.model
    calm = {"robot": str(robot.path), "push_s": 0.0, "start_joints": 0.0}
    for told, config in (
        ("told to stand", {"stand_share": 1.0}),
        ("told to walk", {"stand_share": 0.0, "resample_s": 1.0}),
    ):
        env = make("go2-velocity", WORLDS, seed=0, config=calm | config)
        stands = returns(env, _still)
        if told == "told to stand":
            _draw(env, picture)
            load = float((task_of(env).robot.force.abs() / torch.tensor(m.torque)).max())
        falls = {name: returns(env, act) for name, act in (("going limp", _limp), ("folding its legs", _fold))}
        _compare(out, "go2-velocity", (f"standing, {told},", stands), falls)
        task = task_of(env)
        env.close()
    low, high = np.degrees(m.lower), np.degrees(m.upper)
    out.facts |= {
        "mass": f"{m.mass:.3g} kg",
        "legs": f"{m.leg_length:.3g} m; it stands at {m.stand_height:.3g} m",
        "home": f"{', '.join(f'{v:.3g}' for v in m.home[:3])} rad, first leg",
        "limits": ", ".join(f"{part} {low[i]:.0f} to {high[i]:.0f}" for i, part in enumerate(PARTS))
        + " degrees, first leg",
        "motors": f"{min(m.torque):.3g} to {max(m.torque):.3g} N m, {min(m.speed):.3g} to {max(m.speed):.3g} rad/s; "
        f"standing takes {100.0 * load:.0f} % of the one that it loads most",
    }
    stride, swing = stride_of(m), swing_speed_of(m)
    asked = max(task.most[0], -task.least[0])
    by_legs = stride * 2.0 * task.gait_hz  # a stride in each stance, half of a period
    by_motors = swing / (0.5 * math.pi)  # a swing on a sine peaks above its mean
    out.figures |= {
        "mass_kg": m.mass, "leg_m": m.leg_length, "stand_m": m.stand_height, "standing_torque_share": load,
        "command_m_s": asked, "speed_by_stride_m_s": by_legs, "speed_by_motors_m_s": by_motors,
    }  # fmt: skip
    out.tasks["go2-velocity"].append(
        f"commands of up to {asked:.3g} m/s at {task.gait_hz:.3g} steps a second: strides of {stride:.2g} m allow "
        f"{by_legs:.3g} m/s, its motors {by_motors:.3g} m/s"
    )
    if load > 0.9:
        out.problems.append("standing takes nearly all torque that a motor has: give torque, or a straighter home.")
    if min(by_legs, by_motors) < asked:
        what = "strides" if by_legs < by_motors else "motors"
        out.problems.append(
            f"go2-velocity: its {what} do not reach the commands: lower max_vx and max_back, or mend the limits."
        )


def stride_of(model: QuadrupedModel) -> float:
    """m, how far a foot can go along x on the ground below its hip, within the actions' range; of the leg that can least."""
    low = np.maximum(model.lower, np.array(model.home) - model.swing)
    high = np.minimum(model.upper, np.array(model.home) + model.swing)
    draw = np.random.default_rng(0)
    out = []
    for leg, chain in enumerate(zip(*leg_chains(model.spec().compile(), model.joints), strict=True)):
        part = slice(3 * leg, 3 * leg + 3)
        home = np.array(model.home[part])[None]
        foot = forward(chain, draw.uniform(low[part], high[part], (SAMPLES, 3)))[1] - forward(chain, home)[1]
        near = LEVEL * model.leg_length
        x = foot[(np.abs(foot[:, 2]) < near) & (np.abs(foot[:, 1]) < 2.0 * near), 0]
        out.append(float(np.ptp(x)) if len(x) else 0.0)
    return min(out)


def swing_speed_of(model: QuadrupedModel) -> float:
    """m/s, of a foot along x at home, all joints within their speeds; of the leg that can least."""
    out = []
    step = 1e-5
    for leg, chain in enumerate(zip(*leg_chains(model.spec().compile(), model.joints), strict=True)):
        home = np.array(model.home[3 * leg : 3 * leg + 3])
        moved = forward(chain, home + step * np.eye(3))[1] - forward(chain, home[None])[1]
        rates = np.linalg.lstsq(moved.T / step, np.array([1.0, 0.0, 0.0]), rcond=None)[0]  # rad/s for 1 m/s
        out.append(float((np.array(model.speed[3 * leg : 3 * leg + 3]) / np.maximum(np.abs(rates), 1e-9)).min()))
    return min(out)


# Drones


def _off(env: Any, obs: dict[str, Tensor], step: int) -> dict[str, Tensor]:
    """Motors off."""
    return {"drone": torch.tensor([-1.0, 0.0, 0.0, 0.0]).expand(env.num_envs, 1, 4)}


def _drone(out: Check, robot: OwnRobot[Any], picture: Path | None) -> None:
    d = robot.model
    ratio = d.thrust_to_weight
    across = 2.0 * float(np.linalg.norm(np.array(d.rotor_positions)[:, :2], axis=1).max())
    out.facts |= {
        "mass": f"{d.mass:.3g} kg, {across:.3g} m between opposite rotors",
        "thrust to weight": f"{ratio:.3g}",
        "rotors": f"{d.tau_up:.3g} s to follow a command",
        "limits": f"tilt {math.degrees(d.max_tilt):.0f} degrees, {d.max_velocity:.3g} m/s",
    }
    out.figures |= {"mass_kg": d.mass, "thrust_to_weight": ratio, "across_m": across}
    if ratio < 1.3:
        out.problems.append(
            "its rotors give hardly more than its weight: nothing is left to steer with; give max_thrust."
        )
    config = {"drone": str(robot.path), "action": "ctbr"}
    env = make("drone-hover", WORLDS, seed=0, config=config)
    env.reset(seed=0)
    _draw(env, picture)
    flies, success = _expert(env)
    _compare(out, "drone-hover", ("the classical controller", flies), {"switching off": returns(env, _off)})
    env.close()
    _succeeds(out, "drone-hover", "the classical controller", success, "see mass, inertia, max_thrust and tau")
    asked, speed = _path_of_track(config)
    can = GRAVITY * min(math.sqrt(max(ratio**2 - 1.0, 0.0)), math.tan(d.max_tilt))
    out.figures |= {"asked_m_s2": asked, "can_m_s2": can, "asked_m_s": speed}
    out.tasks["drone-track"] = [
        f"its path asks for up to {speed:.3g} m/s and {asked:.3g} m/s^2 sideways: it can {d.max_velocity:.3g} m/s, and "
        f"{can:.3g} m/s^2 at its largest tilt"
    ]
    if can < asked or d.max_velocity < speed:
        out.problems.append(
            "drone-track: its path is too fast for it: lower speed, or raise max_tilt, max_velocity or max_thrust."
        )


def _path_of_track(config: dict[str, Any]) -> tuple[float, float]:
    """m/s^2 and m/s, largest of the references of drone-track."""
    env = make("drone-track", WORLDS, seed=0, config=config)
    env.reset(seed=0)
    task = task_of(env)
    t = torch.linspace(0.0, task.cfg.episode_s, 400)[:, None, None, None, None]
    angle = task.frequency * t + task.phase
    speed = (task.amplitude * task.frequency * angle.cos()).sum(-1).norm(dim=-1).max()
    sideways = (task.amplitude * task.frequency**2 * angle.sin()).sum(-1)[..., :2].norm(dim=-1).max()
    env.close()
    return float(sideways), float(speed)


def _succeeds(out: Check, task: str, who: str, success: float, why: str) -> None:
    out.tasks[task].append(f"{who} succeeds in {100.0 * success:.0f} % of {WORLDS} episodes")
    out.figures[f"{task}: success"] = success
    if success < 0.5:
        out.problems.append(f"{task}: {who} fails: {why}.")


def _expert(env: Env) -> tuple[Tensor, float]:
    """Returns [N] of SECONDS of the task's own controller, and its share of successes in whole episodes."""
    controller = task_of(env).controller()  # type: ignore[attr-defined]
    earned = returns(env, lambda e, obs, step: controller(obs))
    obs, _ = env.reset(seed=1)
    done = torch.full((env.num_envs,), math.nan)
    for _ in range(env.max_episode_steps + 1):
        obs, _, terminated, truncated, info = env.step(controller(obs))
        over = (terminated | truncated) & done.isnan()
        if over.any():
            ends = info["episode"]
            done[ends["ids"]] = torch.where(over[ends["ids"]], ends["metrics"]["success"].float(), done[ends["ids"]])
        if not done.isnan().any():
            break
    return earned, float(done.nan_to_num(0.0).mean())


# Arms


def _arm(out: Check, robot: OwnRobot[Any], picture: Path | None) -> None:
    m = robot.model
    model = m.spec().compile()
    moved = float(model.body_mass.sum())
    reach = float(sum(np.linalg.norm(model.body_pos[int(model.joint(j).bodyid[0])]) for j in m.joints[1:]))
    out.facts |= {
        "mass": f"{moved:.3g} kg",
        "links": f"{reach:.3g} m from the first joint to the last; {m.nearer:.3g} m nearer to the table's things than a Panda",
        "home": f"{', '.join(f'{v:.3g}' for v in m.home)} rad",
        "limits": ", ".join(
            f"{a:.0f} to {b:.0f}" for a, b in zip(np.degrees(m.lower), np.degrees(m.upper), strict=True)
        )
        + " degrees",
        "motors": f"{', '.join(f'{v:.3g}' for v in m.torque)} N m",
    }
    out.figures |= {"mass_kg": moved, "links_m": reach, "nearer_m": m.nearer}
    for task in ("table-reach", *(("table-pick-place",) if m.fingers else ())):
        env = make(task, WORLDS, seed=0, config={"robot": str(robot.path)})
        if task == "table-reach":
            env.reset(seed=0)
            _draw(env, picture)
        expert, success = _expert(env)
        _compare(out, task, ("the scripted expert", expert), {"standing still": returns(env, _still)})
        env.close()
        _succeeds(out, task, "the scripted expert", success, "its goals may be out of reach; see home, tool and limits")
