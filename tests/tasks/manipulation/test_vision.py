"""Table-top tasks by sight: pictures and clouds show what the poses would tell."""

from __future__ import annotations

import pytest
import torch

import rookery
from rookery.sim.errors import RookeryError

SMALL = {"image_width": 16, "image_height": 12, "points": 64, "episode_s": 0.5}


def make(obs, n=4, **options):
    return rookery.make("table-push", n, seed=3, config={"obs": obs, **SMALL}, **options)


@pytest.mark.parametrize(("obs", "size"), [("depth", 384), ("rgb", 1152), ("segmentation", 384), ("points", 192)])
def test_pictures_take_the_place_of_poses(obs, size):
    env = make(obs)
    slices = env.groups["arm"].slices()
    assert not any(name.startswith("object_") for name in slices)
    assert slices[obs].stop - slices[obs].start == size
    first, _ = env.reset()
    for _ in range(5):
        seen, *_ = env.step({"arm": torch.full((4, 1, 4), 0.5)})
    assert torch.isfinite(seen["arm"]).all()
    assert not torch.equal(first["arm"][..., slices[obs]], seen["arm"][..., slices[obs]])
    (term,) = (t for t in env.groups["arm"].observation if t.name == obs)
    if obs == "points":
        assert term.shape == ()
        return
    (reader,) = env.sensors.readers["arm"].values()
    pictures = reader.cameras.read()  # [N, cameras, rows, columns] and colors
    assert term.shape == (*pictures.shape[1:4], 3 if obs == "rgb" else 1)
    shown = seen["arm"][:, 0, slices[obs]].view(4, *term.shape)
    torch.testing.assert_close(shown, pictures.float().view(shown.shape) * term.scale)


def test_the_cloud_has_the_puck():
    env = make("points", 8)
    obs, _ = env.reset()
    cloud = obs["arm"][:, 0, env.groups["arm"].slices()["points"]].view(8, -1, 3)
    puck = env.task.first[:, None, :3]
    near = ((cloud - puck)[..., :2].norm(dim=-1) < 0.03) & (cloud[..., 2] < 0.045)  # the hand is over it
    assert (near.sum(1) >= 3).all()
    assert cloud[..., 2].min() > 0.0  # the table is cropped


def test_looks_are_randomized_by_a_switch_and_the_same_for_a_seed():
    red = make("rgb", fixed={"visual_brightness": 0.5}), make("rgb", fixed={"visual_brightness": 0.5}), make("rgb")
    pictures = [env.reset()[0]["arm"][..., env.groups["arm"].slices()["rgb"]] for env in red]
    assert torch.equal(pictures[0], pictures[1])
    assert pictures[0].mean() < 0.8 * pictures[2].mean()


def test_bad_settings_are_refused():
    with pytest.raises(RookeryError, match="did you mean 'depth'"):
        make("dept")
    with pytest.raises(RookeryError, match="must be positive"):
        rookery.make("table-push", 2, config={"obs": "rgb", "image_width": 0})
