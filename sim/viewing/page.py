"""The first view of a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rookery.sim.env import Env
from rookery.sim.rendering.camera import CHASE, Camera, body_radius, cameraman, default_focus
from rookery.sim.rendering.frame import FrameStage

if TYPE_CHECKING:
    import mujoco
    from viser import ViserServer

ASPECT = 16 / 9
"""Width over height of the page that the first view is for."""


def first_view(server: ViserServer, env: Env, model: mujoco.MjModel, world: int, over: bool) -> bool:
    """Give new pages the view that videos of a world begin with.

    Args:
        server: of the page.
        env: with the world.
        model: its visual model.
        world: which.
        over: whether the body that a chasing camera follows is drawn over the origin of the page.

    Returns:
        whether the camera of the task's videos goes with a body.
    """
    stage = FrameStage(model)
    data = env.mj_data(world)
    stage.set_state(data.qpos, data.time, data.mocap_pos, data.mocap_quat)
    focus = default_focus(model)
    points = [np.asarray(m["pos"], float) for m in env.markers(world)]
    view = cameraman(model, env.camera, focus, body_radius(model, focus), ASPECT).view(stage.data, points)
    chases = _goes_along(model, env.camera)
    shift = np.array([*stage.data.xpos[focus][:2], 0.0]) if over and chases else np.zeros(3)
    first = server.initial_camera
    first.position = view.eye - shift
    first.look_at = view.target - shift
    first.up = (0.0, 0.0, 1.0)
    first.fov = float(np.radians(view.fovy))
    first.near = 0.02 * float(np.linalg.norm(view.eye - view.target))
    return chases


def _goes_along(model: mujoco.MjModel, camera: Camera) -> bool:
    """True where a camera chases a body, or is one of the model's on a body that moves."""
    if not isinstance(camera, str) or camera in CHASE:
        return isinstance(camera, str)
    own = [i for i in range(model.ncam) if model.camera(i).name == camera]
    return any(model.body_weldid[model.cam_bodyid[i]] != 0 for i in own)


def look_again(server: ViserServer) -> None:
    """Give the pages that are open the first view too."""
    first = server.initial_camera
    for client in server.get_clients().values():
        with client.atomic():
            client.camera.up_direction = first.up
            client.camera.position = first.position
            client.camera.look_at = first.look_at
            client.camera.fov = first.fov
            client.camera.near = first.near
