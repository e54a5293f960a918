"""What the tensor functions of `gym` take: shapes, indices, counts and rows that are not chosen, against the World."""

from __future__ import annotations

import mujoco
import pytest
import torch

from rookery import isaacgym
from rookery.sim.errors import RookeryError
from rookery.sim.scene import Scene

XML = """<mujoco><worldbody>
<body name="box" pos="0 0 1"><freejoint/><geom type="box" size=".1 .2 .3" mass="2"/></body>
<body name="arm" pos="2 0 1"><joint name="elbow"/><geom type="capsule" size=".05" fromto="0 0 0 0 0 1" mass="1"/>
  <body name="hand" pos="0 0 1"><joint name="wrist" type="slide"/><geom size=".1" mass="1"/>
    <body name="finger" pos="0 0 1"><joint name="knuckle"/><geom size=".1" mass="1"/></body></body></body>
</worldbody><actuator><motor joint="elbow"/><motor joint="wrist"/></actuator></mujoco>"""
"""Two actors and three degrees of freedom, the last of which nothing drives."""
N, ACTORS, DOFS = 3, 2, 3
GYM = isaacgym.TensorApi()


@pytest.fixture
def sim():
    scene = Scene(lambda: mujoco.MjSpec.from_string(XML), integrator="euler")
    made = isaacgym.Simulation(scene, N, isaacgym.SimParams(dt=0.01, substeps=2, gravity=(0.0, 0.0, 0.0)))
    yield made
    made.close()


def roots(sim):
    """States [N * A, 13] in which each box stands at a place of its own."""
    out = GYM.acquire_actor_root_state_tensor(sim).clone()
    out[::ACTORS, 0] = torch.tensor([1.0, 2.0, 3.0])
    return out


def places(sim):
    """x of the boxes as the World has it."""
    return [float(sim.world.mj_data(i).qpos[0]) for i in range(N)]


def angles(sim):
    """The degrees of freedom as the World has them."""
    return [sim.world.mj_data(i).qpos[7:].tolist() for i in range(N)]


@pytest.mark.parametrize("shape", [(N * ACTORS, 13), (N, ACTORS, 13), (ACTORS, N, 13), (N * ACTORS * 13,), (1, 78)])
def test_roots_of_every_shape_with_all_rows_are_written(sim, shape):
    assert GYM.set_actor_root_state_tensor(sim, roots(sim).reshape(shape))
    assert places(sim) == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("shape", [(N * DOFS, 2), (N, DOFS, 2), (N * DOFS * 2,)])
def test_dofs_of_every_shape_with_all_rows_are_written(sim, shape):
    states = torch.zeros(N * DOFS, 2)
    states[:, 0] = torch.arange(N * DOFS) / 10
    assert GYM.set_dof_state_tensor(sim, states.reshape(shape))
    assert angles(sim) == pytest.approx(states[:, 0].view(N, DOFS).numpy())


@pytest.mark.parametrize(
    ("function", "values", "said"),
    [
        ("set_dof_state_tensor", torch.zeros(N * DOFS, 2).t(), r"takes a tensor \[9, 2\], got \[2, 9\]"),
        ("set_dof_state_tensor", torch.zeros(N * DOFS, 2, dtype=torch.complex64), r"takes a tensor \[9, 2\]"),
        ("set_actor_root_state_tensor", torch.zeros(13, N * ACTORS), r"takes a tensor \[6, 13\], got \[13, 6\]"),
        ("set_actor_root_state_tensor", torch.zeros(77), r"takes a tensor \[6, 13\], got \[77\]"),
        ("set_actor_root_state_tensor", torch.tensor(1.0), r"takes a tensor \[6, 13\], got \[\]"),
        ("set_actor_root_state_tensor", None, r"takes a tensor \[6, 13\], got NoneType"),
    ],
)
def test_other_shapes_are_one_sentence(sim, function, values, said):
    with pytest.raises(RookeryError, match=said):
        getattr(GYM, function)(sim, values)


FUNCTIONS = [("set_dof_state_tensor_indexed", (N * DOFS, 2)), ("set_actor_root_state_tensor_indexed", (N * ACTORS, 13))]


@pytest.mark.parametrize(("function", "shape"), FUNCTIONS)
@pytest.mark.parametrize(
    ("actors", "said"),
    [
        (torch.tensor([True, False, False]), r"indices, int32 or int64, got torch\.bool"),
        (torch.tensor([0.7]), r"indices, int32 or int64, got torch\.float32"),
        (torch.tensor([1j]), r"indices, int32 or int64, got torch\.complex64"),
        (["box"], "indices, int32 or int64, got list"),
        (None, "indices, int32 or int64, got NoneType"),
        ([2**70], "indices, int32 or int64, got list"),
        (torch.tensor([N * ACTORS]), "indices from 0 to 5, got 6"),
    ],
)
def test_what_is_no_index_is_one_sentence(sim, function, shape, actors, said):
    """The most is that of the actors, of which there are fewer than degrees of freedom."""
    with pytest.raises(RookeryError, match=f"{function} takes (a tensor of )?{said}"):
        getattr(GYM, function)(sim, torch.zeros(shape), actors, None)


@pytest.mark.parametrize(("function", "shape"), FUNCTIONS)
@pytest.mark.parametrize("count", ["a", 1.5, -1, torch.tensor([1, 2])])
def test_what_is_no_count_is_one_sentence(sim, function, shape, count):
    with pytest.raises(RookeryError, match=rf"{function} takes as count a whole number of at least 0, got"):
        getattr(GYM, function)(sim, torch.zeros(shape), torch.tensor([0]), count)


@pytest.mark.parametrize("actors", [[], torch.tensor([], dtype=torch.int32)])
def test_no_index_writes_nothing(sim, actors):
    assert GYM.set_dof_state_tensor_indexed(sim, torch.ones(N * DOFS, 2), actors, 0)
    assert angles(sim) == [[0.0] * DOFS] * N


def test_indices_behind_count_are_not_read(sim):
    states = torch.full((N * DOFS, 2), 0.5)
    GYM.set_dof_state_tensor_indexed(sim, states, torch.tensor([2, 4, 99]), 1)
    assert angles(sim) == [[0.0] * DOFS, [0.5] * DOFS, [0.0] * DOFS]
    GYM.set_actor_root_state_tensor_indexed(sim, roots(sim), torch.tensor([4, 0, 99]), 1)
    assert places(sim) == [0.0, 0.0, 3.0]


def test_rows_of_actors_that_are_not_chosen_may_hold_nan(sim):
    states = roots(sim)
    states[2:] = torch.nan
    assert GYM.set_actor_root_state_tensor_indexed(sim, states, torch.tensor([0]), 1)
    assert places(sim) == [1.0, 0.0, 0.0]


def test_bodies_stand_where_the_dofs_that_were_written_put_them(sim):
    """Without a step between; the first read alone would bring them up to date by itself."""
    GYM.acquire_rigid_body_state_tensor(sim)
    states = torch.zeros(N * DOFS, 2)
    states[1::DOFS, 0] = torch.tensor([0.1, 0.2, 0.3])
    GYM.set_dof_state_tensor(sim, states)
    hand = GYM.acquire_rigid_body_state_tensor(sim).view(N, -1, 13)[:, sim.body_names.index("hand"), 2]
    assert hand.tolist() == pytest.approx([2.1, 2.2, 2.3])


def test_forces_of_dofs_that_nothing_drives_are_not_read(sim):
    forces = torch.tensor([0.5, 2.0, torch.nan] * N)
    GYM.set_dof_actuation_force_tensor(sim, forces)
    GYM.simulate(sim)
    assert GYM.acquire_dof_force_tensor(sim).tolist() == pytest.approx([0.5, 2.0, 0.0] * N)
