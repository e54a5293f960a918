"""Contacts of the Go2's feet while a policy walks undisturbed: how deep they sink in, and how fast they slide.

`python benchmarks/contacts.py --legs` runs it. Straight ahead, sideways and turning, on flat ground, without pushes and
randomization, from one second after the start. Samples are the feet in contact at the beginning of each physics step.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import torch
from result_file import RESULTS, write_result

from rookery.assets.go2 import LEGS
from rookery.experiments.run_env import open_env

COMMANDS = {
    "stand": (0.0, 0.0, 0.0),
    "0.8 m/s ahead": (0.8, 0.0, 0.0),
    "0.3 m/s to the left": (0.0, 0.3, 0.0),
    "0.5 m/s ahead, turning at 0.6 rad/s": (0.5, 0.0, 0.6),
}
"""m/s, m/s, rad/s."""
BEGIN_S = 1.0  # s, from which samples count
LOADED_N = 10.0  # N, normal force from which a foot counts as standing; a leg carries 37 N at rest
METRICS = {
    "depth50": "penetration of a foot into the ground, median over feet in contact and physics steps",
    "depth99": "the same, 99 %",
    "slip50": f"horizontal speed of the foot's material at the contact, median over feet that carry {LOADED_N:g} N or more",
    "slip95": "the same, 95 %",
    "way": "mean distance that a foot slides in one stance",
    "landing": "speed of the foot's centre towards the ground in the physics step before it touches, 95 %",
}


@dataclass
class Feet:
    """Samples of all feet in contact."""

    world: Any
    depth: list[float] = field(default_factory=list)  # m
    slip: list[float] = field(default_factory=list)  # m/s, of loaded feet
    way: list[float] = field(default_factory=list)  # m, of each stance that has ended
    landing: list[float] = field(default_factory=list)  # m/s

    def __post_init__(self) -> None:
        m = self.world.model
        self.geoms = [m.geom(f"go2/{leg}_foot").id for leg in LEGS]
        self.data = mujoco.MjData(m)
        n = self.world.num_envs
        self.open = np.zeros((n, 4))  # m, slid in the stance that goes on
        self.touched = np.ones((n, 4), bool)
        self.fall = np.zeros((n, 4))  # m/s, down, of the last step

    def take(self, _: int) -> None:
        m = self.world.model
        d = self.data
        jacobian = np.zeros((3, m.nv))
        force = np.zeros(6)
        for i in range(self.world.num_envs):
            self.world.batch.get_data(i, d)
            mujoco.mj_forward(m, d)
            touches = np.zeros(4, bool)
            for c in range(d.ncon):
                contact = d.contact[c]
                foot = next((f for f, g in enumerate(self.geoms) if g in contact.geom), None)
                if foot is None:
                    continue
                touches[foot] = True
                mujoco.mj_contactForce(m, d, c, force)
                mujoco.mj_jac(m, d, jacobian, None, contact.pos, m.geom_bodyid[self.geoms[foot]])
                velocity = contact.frame.reshape(3, 3)[1:] @ (jacobian @ d.qvel)
                speed = float(np.linalg.norm(velocity))
                self.depth.append(max(-contact.dist, 0.0))
                self.open[i, foot] += speed * m.opt.timestep
                if force[0] >= LOADED_N:
                    self.slip.append(speed)
            for foot, geom in enumerate(self.geoms):
                mujoco.mj_jac(m, d, jacobian, None, d.geom_xpos[geom], m.geom_bodyid[geom])
                down = -float(jacobian[2] @ d.qvel)
                if touches[foot] and not self.touched[i, foot]:
                    self.landing.append(self.fall[i, foot])
                if self.touched[i, foot] and not touches[foot]:
                    self.way.append(self.open[i, foot])
                    self.open[i, foot] = 0.0
                self.fall[i, foot] = down
            self.touched[i] = touches

    def row(self) -> dict[str, float | None]:
        """METRICS, in mm and mm/s; None where no foot left the ground."""
        return {
            "depth50": 1e3 * float(np.median(self.depth)),
            "depth99": 1e3 * float(np.quantile(self.depth, 0.99)),
            "slip50": 1e3 * float(np.median(self.slip)),
            "slip95": 1e3 * float(np.quantile(self.slip, 0.95)),
            "way": 1e3 * float(np.mean(self.way)) if self.way else None,
            "landing": 1e3 * float(np.quantile(self.landing, 0.95)) if self.landing else None,
        }


@torch.no_grad()
def walk(
    policy: str, command: tuple[float, float, float], worlds: int, seconds: float, **config: Any
) -> dict[str, float | None]:
    """A row for one command."""
    quiet = {"push_s": 0.0, "resample_s": 1e6, "terrain": "flat"}
    env, act = open_env(Path(policy), worlds, seed=1, config=quiet | config)
    obs, _ = env.reset()
    given: Any = env.task
    feet = None
    for step in range(round(seconds / env.control_dt)):
        given.command[:] = torch.tensor(command)
        if step * env.control_dt >= BEGIN_S and feet is None:
            feet = Feet(env.world)
            env.world.inner_loops += (feet.take,)
        obs = env.step(act(obs))[0]
    env.close()
    assert feet is not None
    return feet.row()


def write(policy: str, worlds: int = 8, seconds: float = 10.0) -> None:
    """Write benchmarks/results/contact-legs.json, a row for each command."""
    start = time.perf_counter()
    rows = []
    for name, command in COMMANDS.items():
        rows.append({"case": name, **walk(policy, command, worlds, seconds)})
        print(rows[-1], flush=True)
    titles = {
        "depth50": "depth, median, mm", "depth99": "99 %, mm", "slip50": "slip, median, mm/s", "slip95": "95 %, mm/s",
        "way": "slip in a stance, mm", "landing": "landing, 95 %, mm/s",
    }  # fmt: skip
    columns = [{"key": "case", "title": "command"}]
    columns += [{"key": k, "title": t, "format": ".2f"} for k, t in titles.items()]
    write_result(
        RESULTS / "contact-legs.json", f"python benchmarks/contacts.py --legs {policy}", start, columns, rows, METRICS
    )
