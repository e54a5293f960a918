"""What rays hit, against MuJoCo's own rays."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
import torch

from rookery.assets import scenery
from rookery.assets.drones import look_along
from rookery.sim.engines.mujoco.world import MujocoWorld
from rookery.sim.scene import Scene
from rookery.sim.sensors.cameras import CLASSES, Cameras, geom_class

GEOM = mujoco.mjtGeom
SHAPES = {
    "sphere": GEOM.mjGEOM_SPHERE,
    "capsule": GEOM.mjGEOM_CAPSULE,
    "cylinder": GEOM.mjGEOM_CYLINDER,
    "box": GEOM.mjGEOM_BOX,
    "ellipsoid": GEOM.mjGEOM_ELLIPSOID,
}
WIDTH = 40
HEIGHT = 30
RANGE = 15.0
EVERYWHERE = [[dx, dy] for dx in (-1, 0, 1) for dy in (-1, 0, 1)]


def eye() -> mujoco.MjSpec:
    """A flying camera with a shell that it must not see, and a nose that it must, on a joint of its own."""
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="base")
    body.add_freejoint()
    body.add_geom(name="shell", type=GEOM.mjGEOM_SPHERE, size=[0.1, 0, 0], pos=[0.05, 0, 0])
    body.add_camera(name="front", pos=[0.1, 0.02, -0.03], quat=list(look_along([1.0, 0.1, -0.1])), fovy=70)
    body.add_camera(name="side", pos=[0.0, 0.1, 0.0], quat=list(look_along([0.2, 1.0, 0.1])), fovy=45)
    return spec


def mover(kind: int, size: np.ndarray, quat: np.ndarray) -> mujoco.MjSpec:
    """A free body whose geom is off its origin and turned."""
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="base")
    body.add_freejoint()
    body.add_geom(name="hull", type=kind, size=list(size), pos=[0.1, -0.2, 0.15], quat=list(quat))
    return spec


def scattered(seed: int, kinds: tuple[str, ...] = tuple(SHAPES), each: int = 6) -> MujocoWorld:
    """Three worlds of fixed and moving shapes of the given kinds around two cameras of a free body, over a ground."""
    rng = np.random.default_rng(seed)

    def base() -> mujoco.MjSpec:
        spec = scenery.ground()
        draw = np.random.default_rng(seed + 100)
        for i, kind in enumerate(kinds * each):
            spec.worldbody.add_geom(
                name=f"{kind}_{i}",
                type=SHAPES[kind],
                size=list(draw.uniform(0.1, 1.0, 3)),
                pos=list(draw.uniform(-1, 1, 3) * [6, 6, 2] + [0, 0, 2]),
                quat=list(draw.normal(size=4)),
            )
        return spec

    scene = Scene(base).add(eye, "eye", pos=(0, 0, 2))
    for i, kind in enumerate(kinds):
        size = rng.uniform(0.2, 0.8, 3)
        quat = rng.normal(size=4)
        scene.add(lambda k=kind, s=size, q=quat: mover(SHAPES[k], s, q), f"mover_{i}", pos=(0, 3.0 * i, 2))
    world = MujocoWorld(scene, 3)
    free = world.bodies(["eye/base", *(f"mover_{i}/base" for i in range(len(kinds)))])
    state = torch.zeros(3, len(kinds) + 1, 13)
    state[..., :3] = torch.from_numpy(rng.uniform(-1, 1, state[..., :3].shape) * [4, 4, 1] + [0, 0, 2])
    quat = rng.normal(size=state[..., 3:7].shape)
    state[..., 3:7] = torch.from_numpy(quat / np.linalg.norm(quat, axis=-1, keepdims=True))
    free.set_state(None, state)
    world.forward()
    return world


def rays(world: MujocoWorld, camera: str, data: mujoco.MjData, shift: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
    """[H, W, 3] through the middles of the pixels (plus `shift` of a pixel) in the world, of depth 1 each, from the definition
    of MuJoCo's cameras: they look along -z, y is up, and fovy is the whole vertical angle."""
    top = math.tan(math.radians(world.model.camera(camera).fovy[0]) / 2)
    x = (np.arange(WIDTH) + 0.5 + shift[0] - WIDTH / 2) * 2 * top / HEIGHT
    y = (HEIGHT / 2 - np.arange(HEIGHT) - 0.5 - shift[1]) * 2 * top / HEIGHT
    own = np.stack(np.broadcast_arrays(x[None, :], y[:, None], -1.0), -1)
    return own @ data.camera(camera).xmat.reshape(3, 3).T


def mujoco_sees(
    world: MujocoWorld, camera: str, i: int, shift: tuple[float, float] = (0.0, 0.0)
) -> tuple[np.ndarray, np.ndarray]:
    """Depth [H, W] and geom ids (-1: nothing within RANGE) by mj_multiRay."""
    data = world.mj_data(i)
    vec = rays(world, camera, data, shift).reshape(-1)
    count = WIDTH * HEIGHT
    ids = np.zeros(count, np.int32)
    depth = np.zeros(count)
    start = data.camera(camera).xpos
    body = int(world.model.camera(camera).bodyid[0])
    mujoco.mj_multiRay(world.model, data, start, vec, None, True, body, ids, depth, None, count, 1e6)
    nothing = (ids < 0) | (depth >= RANGE)
    return np.where(nothing, RANGE, depth).reshape(HEIGHT, WIDTH), np.where(nothing, -1, ids).reshape(HEIGHT, WIDTH)


def check_against_mujoco(world: MujocoWorld) -> float:
    """Assert that both cameras of all worlds see what MuJoCo's rays hit, up to a thousandth of a pixel. Returns which share
    of the pixels shows shapes other than the ground."""
    names = ["eye/front", "eye/side"]
    depths = Cameras(world, names, WIDTH, HEIGHT, "depth", RANGE).read()
    classes = Cameras(world, names, WIDTH, HEIGHT, "segmentation", RANGE).read()
    table = np.array([CLASSES.index(geom_class(world.model, g)) for g in range(world.model.ngeom)] + [0])
    shapes = 0
    for i in range(world.num_envs):
        for c, name in enumerate(names):
            depth, ids = mujoco_sees(world, name, i)
            wrong = np.abs(depths[i, c].numpy() - depth) > 1e-3
            wrong |= classes[i, c].numpy() != table[ids]
            if wrong.any():  # such pixels lie on an edge: rays beside theirs hit what we see and what they see
                near = [mujoco_sees(world, name, i, (2e-3 * dx, 2e-3 * dy)) for dx, dy in EVERYWHERE]
                matches = [
                    (np.abs(depths[i, c].numpy() - d) < 2e-2) & (classes[i, c].numpy() == table[g]) for d, g in near
                ]
                assert np.any(matches, axis=0)[wrong].all(), (
                    i,
                    name,
                    np.argwhere(wrong & ~np.any(matches, axis=0))[:5],
                )
                assert wrong.mean() < 0.01
            shapes += (table[ids] > 1).sum()
    return shapes / depths.numel()


@pytest.mark.parametrize("seed", range(4))
def test_depths_and_classes_are_those_of_mujocos_rays(seed):
    assert check_against_mujoco(scattered(seed)) > 0.15


@pytest.mark.parametrize("kind", SHAPES)
def test_each_kind_of_shape_alone(kind):
    assert check_against_mujoco(scattered(11, (kind,), each=30)) > 0.04


@pytest.mark.parametrize("kind", SHAPES)
def test_from_inside_a_shape_its_far_wall_is_seen(kind):
    def room() -> mujoco.MjSpec:
        spec = scenery.ground()
        size = [3.0, 2.5, 2.0]
        spec.worldbody.add_geom(name="room", type=SHAPES[kind], size=size, pos=[0.3, 0.2, 2], quat=[0.9, 0.2, 0.3, 0.1])
        return spec

    world = MujocoWorld(Scene(room).add(eye, "eye", pos=(0.2, -0.3, 1.8), quat=(0.8, 0.1, 0.2, 0.5)), 1)
    assert check_against_mujoco(world) > 0.3


def test_flat_and_bounded_planes_are_seen_from_their_front_only():
    def base() -> mujoco.MjSpec:
        spec = mujoco.MjSpec()
        for i, quat in enumerate(([1, 0, -1, 0], [1, 0, 1, 0])):  # fronts towards -x and +x
            spec.worldbody.add_geom(
                name=f"wall_{i}", type=GEOM.mjGEOM_PLANE, size=[0.8, 1.2, 0.1], pos=[3.0 - i, 0, 2], quat=quat
            )
        return spec

    world = MujocoWorld(Scene(base).add(eye, "eye", pos=(0, 0, 2)), 1)
    check_against_mujoco(world)
    depth = Cameras(world, ["eye/front"], WIDTH, HEIGHT, "depth", RANGE).read()[0, 0]
    assert depth[HEIGHT // 2, WIDTH // 2] == pytest.approx(2.9, abs=0.4)  # through the back of the nearer wall
    assert (depth == RANGE).any()


@pytest.mark.parametrize("seed", [0, 3])
def test_surfaces_are_as_bright_as_they_face_the_sun(seed):
    check_brightness(scattered(seed))


def check_brightness(world: MujocoWorld) -> None:
    """With the normals of MuJoCo's rays: half the light comes from everywhere, half from the sun."""
    picture = Cameras(world, ["eye/front"], WIDTH, HEIGHT, "rgb", RANGE).read()[:, 0].numpy()
    checked = 0
    for i in range(world.num_envs):
        data = world.mj_data(i)
        count = WIDTH * HEIGHT
        ids = np.zeros(count, np.int32)
        depth = np.zeros(count)
        normal = np.zeros(3 * count)
        start = data.camera("eye/front").xpos
        body = int(world.model.camera("eye/front").bodyid[0])
        vec = rays(world, "eye/front", data).reshape(-1)
        mujoco.mj_multiRay(world.model, data, start, vec, None, True, body, ids, depth, normal, count, 1e6)
        outside = (normal.reshape(-1, 3) * vec.reshape(-1, 3)).sum(-1) < 0  # not from within a shape
        shown = (ids > 0) & (depth < RANGE) & outside
        facing = (normal.reshape(-1, 3) @ [-0.228, -0.346, 0.910]).clip(0)
        wanted = 255 * 0.5 * (0.5 + 0.5 * facing)  # every shape is MuJoCo's default gray
        wrong = np.abs(picture[i].reshape(-1, 3) - wanted[:, None]).max(-1) > 2
        assert wrong[shown].sum() <= 0.02 * shown.sum()  # edges, where rays side by side hit different faces
        checked += shown.sum()
    assert checked > 150


def test_a_small_ball_far_away_is_measured_to_a_millimeter():
    world = MujocoWorld(Scene(None).add(eye, "eye").add(far_ball, "ball", pos=(80.0, 8.0, -8.0)), 1)
    camera = Cameras(world, ["eye/front"], 401, 301, "depth", 100.0)
    data = world.mj_data(0)
    xmat = data.camera("eye/front").xmat.reshape(3, 3)
    xpos = data.camera("eye/front").xpos
    centre = (np.array([80.0, 8.0, -8.0]) - xpos) @ xmat
    depth = camera.read()[0, 0]
    assert depth.min() == pytest.approx(-centre[2] - 0.2, abs=0.02)
    row, column = divmod(int(depth.argmin()), 401)
    top = math.tan(math.radians(35))
    d = np.array([(column + 0.5 - 200.5) * 2 * top / 301, (150.5 - row - 0.5) * 2 * top / 301, -1.0])
    a, b, c = d @ d, d @ centre, centre @ centre - 0.04
    assert float(depth.min()) == pytest.approx((b - math.sqrt(b * b - a * c)) / a, abs=1e-3)


def far_ball() -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    body = spec.worldbody.add_body(name="base")
    body.add_freejoint()
    body.add_geom(name="ball", type=GEOM.mjGEOM_SPHERE, size=[0.2, 0, 0])
    return spec


def test_pictures_do_not_depend_on_the_number_of_threads():
    world = scattered(5)
    for kind in ("depth", "rgb", "segmentation"):
        pictures = [Cameras(world, ["eye/front", "eye/side"], 96, 72, kind, threads=t).read() for t in (1, 2, 3)]
        assert torch.equal(pictures[0], pictures[1])
        assert torch.equal(pictures[0], pictures[2])


def rocks(seed: int, corners: int) -> MujocoWorld:
    """Convex meshes, fixed and moving, off their origins and turned, around the two cameras of a free body."""
    rng = np.random.default_rng(seed)

    def mesh(spec: mujoco.MjSpec, name: str, draw: np.random.Generator) -> None:
        points = draw.normal(size=(corners, 3))
        points *= draw.uniform(0.3, 0.9, 3) / np.linalg.norm(points, axis=1, keepdims=True)
        spec.add_mesh(name=name, uservert=(points + draw.uniform(-0.3, 0.3, 3)).flatten().tolist())

    def base() -> mujoco.MjSpec:
        spec = scenery.ground()
        draw = np.random.default_rng(seed + 100)
        for i in range(16):
            mesh(spec, f"rock_{i}", draw)
            place = draw.uniform(-1, 1, 3) * [6, 6, 2] + [0, 0, 2]
            spec.worldbody.add_geom(
                name=f"rock_{i}",
                type=GEOM.mjGEOM_MESH,
                meshname=f"rock_{i}",
                pos=list(place),
                quat=list(draw.normal(size=4)),
            )
        return spec

    def stone() -> mujoco.MjSpec:
        spec = mujoco.MjSpec()
        mesh(spec, "stone", np.random.default_rng(seed + 200))
        body = spec.worldbody.add_body(name="base")
        body.add_freejoint()
        body.add_geom(
            name="hull", type=GEOM.mjGEOM_MESH, meshname="stone", pos=[0.1, 0.2, 0], quat=[0.7, 0.1, 0.5, 0.2]
        )
        return spec

    world = MujocoWorld(Scene(base).add(eye, "eye", pos=(0, 0, 2)).add(stone, "stone", pos=(0, 3, 2)), 2)
    state = torch.zeros(2, 2, 13)
    state[..., :3] = torch.from_numpy(rng.uniform(-1, 1, (2, 2, 3)) * [3, 3, 1] + [0, 0, 2])
    state[..., 3:7] = torch.nn.functional.normalize(torch.from_numpy(rng.normal(size=(2, 2, 4))), dim=-1)
    world.bodies(["eye/base", "stone/base"]).set_state(None, state)
    world.forward()
    return world


@pytest.mark.parametrize(("seed", "corners"), [(0, 4), (1, 8), (2, 30)])
def test_convex_meshes_are_those_of_mujocos_rays(seed, corners):
    assert check_against_mujoco(rocks(seed, corners)) > 0.02


CUBE = [x for p in np.stack(np.meshgrid(*[[-1, 1]] * 3), -1).reshape(-1, 3) for x in p * [0.3, 0.5, 0.2]]


@pytest.mark.parametrize("place", [(3, 0.2, 2.1), (0.15, 0.0, 1.9)])  # from outside and from within
def test_a_mesh_of_a_box_is_that_box_pixel_for_pixel(place):
    def base(mesh: bool) -> mujoco.MjSpec:
        spec = scenery.ground()
        spec.add_mesh(name="box", uservert=CUBE)
        shape = {"type": GEOM.mjGEOM_MESH, "meshname": "box"} if mesh else {"type": GEOM.mjGEOM_BOX}
        geom = spec.worldbody.add_geom(
            name="it", pos=list(place), quat=[0.9, 0.2, -0.3, 0.1], rgba=[0.9, 0.5, 0.2, 1], **shape
        )
        if not mesh:
            geom.size = [0.3, 0.5, 0.2]
        return spec

    worlds = [MujocoWorld(Scene(lambda m=m: base(m)).add(eye, "eye", pos=(0, 0, 2)), 1) for m in (True, False)]
    for kind, tolerance in (("depth", 1e-5), ("segmentation", 0), ("rgb", 1)):
        mesh, box = (Cameras(w, ["eye/front"], WIDTH, HEIGHT, kind, RANGE).read().float() for w in worlds)
        assert (mesh - box).abs().max() <= tolerance, kind
    seen = Cameras(worlds[0], ["eye/front"], WIDTH, HEIGHT, "segmentation", RANGE).read()
    assert (seen == CLASSES.index("obstacle")).float().mean() > 0.02


def test_hulls_are_as_bright_as_they_face_the_sun():
    check_brightness(rocks(2, 30))
