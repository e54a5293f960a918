"""Randomization of what cameras see: colors, patterns, light, and where the cameras sit and how wide they look.

Every switch is a `Parameter` like the physical ones, so that a task only adds them to its own and a TOML file or ``--set``
names them::

    [visual_texture]
    low = 0.0
    high = 1.0

Its value, one a world, says how far a world departs from the scene; in which direction (which color, which way the light
turns) is drawn from the same world's stream at the same moment. Pictures differ between worlds and episodes, and the same seed
gives the same ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from rookery.sim.buffers import Buffers
from rookery.sim.errors import RookeryError
from rookery.sim.random import Streams
from rookery.sim.randomization.parameters import Parameter
from rookery.sim.randomization.ranges import Range
from rookery.sim.rotations import from_axis_angle, matrix
from rookery.sim.sensors.cameras import Cameras
from rookery.sim.sensors.shading import (
    AMBIENT,
    BRIGHTNESS,
    CHEQUER,
    CONTRAST,
    HORIZON,
    LIGHT,
    NOISE,
    PATTERN,
    PERIOD,
    PHASE,
    PLANE,
    SECOND,
    STRIPES,
    SUN,
    TINT,
    ZENITH,
)

SPREAD: dict[str, Range] = {
    # Our choice: colors, patterns and lights that a policy must not rely on differ without limit, the camera by what a
    # careful mounting and calibration leave.
    "visual_color": Range(0.0, 1.0),
    "visual_texture": Range(0.0, 1.0),
    "visual_light_direction": Range(0.0, 1.0),
    "visual_light_color": Range(0.0, 0.3),
    "visual_brightness": Range(0.5, 1.5),
    "visual_ambient": Range(0.2, 0.8),
    "visual_sky": Range(0.0, 1.0),
    "visual_camera_shift": Range(0.0, 0.01),
    "visual_camera_tilt": Range(0.0, 0.03),
    "visual_fov": Range(0.97, 1.03),
}
"""Ranges for policies that see, to be added to a task's `default_randomization`; ``--randomize all`` draws them."""

PERIODS = (0.1, 1.0)
"""Repetitions of a pattern against the size of what they are on (its bounding radius), or in m on planes."""


class VisualRandomization(Buffers):
    """The visual parameters of a task with cameras.

    An environment makes one for the cameras that its terms see by (see rookery.sim.sensors.sensor). A task with further ones
    makes its own in `setup`, names it as a child, so that a resumed run sees the same pictures, and adds its `parameters` to
    its own.

    Args:
        cameras: of one world. What they share looks the same to all of them: geoms, light, and a camera that several have
            by its name (one for depth, one for color).
        rng: the worlds' random streams.

    Raises:
        RookeryError: no cameras, or cameras of different worlds.
    """

    def __init__(self, cameras: Sequence[Cameras], rng: Streams) -> None:
        super().__init__()
        if not cameras or any(c.world is not cameras[0].world for c in cameras):
            raise RookeryError(f"visual randomization needs cameras of one world, got {len(cameras)}.")
        self.cameras = tuple(cameras)
        self.rng = rng
        self._lenses = sorted({name for c in cameras for name in c.names})
        self._places = [[self._lenses.index(name) for name in c.names] for c in self.cameras]
        model = cameras[0].world.model
        first = cameras[0]
        planes = torch.from_numpy(model.geom_type[first.geoms] == PLANE)
        self._sizes = torch.where(planes, 1.0, torch.from_numpy(model.geom_rbound[first.geoms]).float())
        self._nominal = [  # of one world, as the scene has it
            {name: getattr(c.look, name)[0].clone() for name in ("paint", "texture", "light", "pos", "mat")}
            for c in self.cameras
        ]
        for i, c in enumerate(self.cameras):
            self.child(f"look_{i}", c.look)

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """See Buffers; all pictures are drawn anew."""
        super().load_state_dict(state)
        for c in self.cameras:
            c.redraw()

    def parameters(self) -> dict[str, Parameter]:
        """The switches by name, all of them visual_*."""
        share = (0.0, 0.0, 1.0)
        factor = (1.0, 0.0, 4.0)
        rows: list[tuple[str, str, str, tuple[float, float, float], Callable[[Tensor, Tensor], None]]] = [
            ("color", "share of each geom's color that is a color of chance", "1", share, self._color),
            ("texture", "contrast of a chequer, stripes or noise on each geom", "1", share, self._texture),
            (
                "light_direction", "angle by which the sun stands elsewhere", "rad", (0.0, 0.0, 0.5 * math.pi),
                self._light_direction,
            ),
            ("light_color", "how much of a color the light may lack", "1", share, self._light_color),
            ("brightness", "factor on the brightness of everything", "1", factor, self._brightness),
            ("ambient", "share of the light that comes from everywhere", "1", (0.5, 0.0, 1.0), self._ambient),
            ("sky", "share of the background that is of colors of chance", "1", share, self._sky),
            ("camera_shift", "distance of each camera from its place", "m", (0.0, 0.0, 1.0), self._camera_shift),
            ("camera_tilt", "angle of each camera from its attitude", "rad", (0.0, 0.0, 0.5 * math.pi), self._camera_tilt),
            ("fov", "factor on the cameras' angles of view", "1", (1.0, 0.5, 1.5), self._fov),
        ]  # fmt: skip
        out = {}
        for name, summary, unit, limits, write in rows:
            r = SPREAD[f"visual_{name}"]
            out[f"visual_{name}"] = Parameter(summary, unit, *limits, write, (), (r.low, r.high))
        return out

    def _color(self, ids: Tensor, values: Tensor) -> None:
        new = self.rng(ids).uniform(shape=(len(self._sizes), 3)).cpu()
        share = values.cpu()[:, None, None]
        for c, nominal in zip(self.cameras, self._nominal, strict=True):
            c.look.paint[ids.cpu()] = torch.lerp(nominal["paint"], new, share)
            c.redraw(ids)

    def _texture(self, ids: Tensor, values: Tensor) -> None:
        draw = self.rng(ids)
        geoms = len(self._sizes)
        rows = torch.zeros(len(ids), geoms, self._nominal[0]["texture"].shape[-1])
        pattern = draw.integers(CHEQUER, NOISE + 1, (geoms,)).cpu()
        rows[..., PATTERN] = pattern
        low = math.log(PERIODS[0])
        high = math.log(PERIODS[1])
        rows[..., PERIOD] = self._sizes * draw.uniform(low, high, (geoms,)).cpu().exp()
        rows[..., CONTRAST] = values.cpu()[:, None]
        rows[..., SECOND:PHASE] = draw.uniform(shape=(geoms, 3)).cpu()
        start = draw.uniform(shape=(geoms, 3)).cpu() * rows[..., PERIOD, None]
        across = draw.unit_vectors((geoms,)).cpu()
        rows[..., PHASE : PHASE + 3] = torch.where((pattern == STRIPES)[..., None], across, start)
        plain = values.cpu() == 0.0  # the value that leaves the scene's own tiles as they are
        for c, nominal in zip(self.cameras, self._nominal, strict=True):
            c.look.texture[ids.cpu()] = torch.where(plain[:, None, None], nominal["texture"], rows)
            c.redraw(ids)

    def _light(self, ids: Tensor, columns: slice, new: Tensor) -> None:
        """Write columns [n, ...] of the worlds' light."""
        for c in self.cameras:
            c.look.light[ids.cpu(), columns] = new
            c.redraw(ids)

    def _light_direction(self, ids: Tensor, values: Tensor) -> None:
        sun = self._nominal[0]["light"][SUN : SUN + 3].expand(len(ids), 3)
        axis = torch.linalg.cross(sun, self.rng(ids).unit_vectors().cpu())
        turn = _turn(torch.nn.functional.normalize(axis, dim=-1), values.cpu())
        self._light(ids, slice(SUN, SUN + 3), (turn @ sun[..., None]).squeeze(-1))

    def _light_color(self, ids: Tensor, values: Tensor) -> None:
        missing = self.rng(ids).uniform(shape=(3,)).cpu()
        self._light(ids, slice(TINT, TINT + 3), 1.0 - values.cpu()[:, None] * missing)

    def _brightness(self, ids: Tensor, values: Tensor) -> None:
        self._light(ids, slice(BRIGHTNESS, BRIGHTNESS + 1), values.cpu()[:, None])

    def _ambient(self, ids: Tensor, values: Tensor) -> None:
        self._light(ids, slice(AMBIENT, AMBIENT + 1), values.cpu()[:, None])

    def _sky(self, ids: Tensor, values: Tensor) -> None:
        colors = self.rng(ids).uniform(shape=(LIGHT - ZENITH,)).cpu()
        nominal = self._nominal[0]["light"][ZENITH : HORIZON + 3]
        self._light(ids, slice(ZENITH, HORIZON + 3), torch.lerp(nominal, colors, values.cpu()[:, None]))

    def _camera_shift(self, ids: Tensor, values: Tensor) -> None:
        shift = values.cpu()[:, None, None] * self.rng(ids).unit_vectors((len(self._lenses),)).cpu()
        for c, nominal, place in zip(self.cameras, self._nominal, self._places, strict=True):
            c.look.pos[ids.cpu()] = nominal["pos"] + shift[:, place]
            c.redraw(ids)

    def _camera_tilt(self, ids: Tensor, values: Tensor) -> None:
        axis = self.rng(ids).unit_vectors((len(self._lenses),)).cpu()
        turn = _turn(axis, values.cpu()[:, None].expand(axis.shape[:2]))
        for c, nominal, place in zip(self.cameras, self._nominal, self._places, strict=True):
            c.look.mat[ids.cpu()] = (turn[:, place] @ nominal["mat"].view(-1, 3, 3)).flatten(2)
            c.redraw(ids)

    def _fov(self, ids: Tensor, values: Tensor) -> None:
        for c in self.cameras:
            half = torch.from_numpy(np.asarray(0.5 * c.fovy)).float()
            # a wide lens times 1.5 must not look backwards: 170 degrees is the most
            wide = (values.cpu()[:, None] * half).clamp(max=math.radians(85.0))
            c.look.zoom[ids.cpu()] = torch.where(values.cpu()[:, None] == 1.0, 1.0, wide.tan() / half.tan())
            c.redraw(ids)


def _turn(axis: Tensor, angle: Tensor) -> Tensor:
    """[..., 3, 3] rotations by angles [...] rad about unit axes [..., 3]."""
    return matrix(from_axis_angle(axis, angle)).unflatten(-1, (3, 3))
