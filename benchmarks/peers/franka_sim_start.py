"""Become franka-sim with the scene of a table-top task: python franka_sim_start.py TASK FOLDER PORT [SEED]

FOLDER takes scene.xml and safety.toml, which is for `rookery fly --safety`; PORT is that of the link's tracker. It says "ready"
once clients are taken. ROOKERY_FRANKA_SIM names the Python of franka-sim's environment.

franka-sim drives an arm of its own accord, in an older MuJoCo: drives go, open fingers are fixed, and so is furniture where the
task's first episode has it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import mujoco
import numpy as np

import rookery

SAFETY = "[limits]\nclock_ms = 0\nfrozen_ms = 0\nstale_ms = 1000\nsilent_ms = 1000\npolicy_ms = 1000\nmisses = 200\n"
"""franka-sim has no noise, so that a robot at rest looks frozen, and its clock is slow on a busy machine."""


def write_scene(task: str, path: Path, seed: int = 0) -> dict[str, list[float]]:
    """Write FILE; the quantities that a tracker would give, and the goal.

    Returns:
        values by name, of the task's first episode.
    """
    env = rookery.make(task, num_envs=1, seed=seed)
    env.reset()
    spec = env.world.scene.spec()
    data = env.world.mj_data(0)
    for element in [*spec.actuators, *spec.sensors, *spec.equalities, *spec.tendons, *spec.cameras, *spec.lights]:
        spec.delete(element)
    for geom in [g for g in spec.geoms if g.type == mujoco.mjtGeom.mjGEOM_MESH]:
        spec.delete(geom)
    for geom in spec.geoms:
        geom.material = ""
    for element in [*spec.meshes, *spec.materials, *spec.textures]:
        spec.delete(element)
    for joint in list(spec.joints):
        joint.actgravcomp = False  # it is compensated without drives
        if "/finger_" in joint.name:
            body = joint.parent
            matrix = np.zeros(9)
            mujoco.mju_quat2Mat(matrix, body.quat)
            body.pos = body.pos + 0.04 * matrix.reshape(3, 3) @ joint.axis
            spec.delete(joint)
    for body in spec.bodies:
        if body.mocap:
            body.mocap = False
            at = data.body(body.name)
            body.pos, body.quat = at.xpos - env.world.model.body(body.name).pos, at.xquat  # its frame stays
            for geom in body.geoms:
                geom.mass = 1.0  # it stands; older MuJoCo wants masses all the same
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.compile()
    path.write_text(spec.to_xml())
    seen = env.task.quantities("arm")
    return {name: value[0].tolist() for name, value in seen.items()}


if __name__ == "__main__":
    task, folder, port = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
    seen = write_scene(task, folder / "scene.xml", *map(int, sys.argv[4:]))
    (folder / "safety.toml").write_text(SAFETY)
    server = Path(__file__).with_name("franka_sim_server.py")
    words = [os.environ["ROOKERY_FRANKA_SIM"], str(server), str(folder / "scene.xml"), port, json.dumps(seen)]
    os.execv(words[0], words)
