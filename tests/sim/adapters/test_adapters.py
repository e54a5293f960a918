"""Gymnasium and PettingZoo over VecEnv: their own checkers, and values against the VecEnv itself."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env
from gymnasium.vector import AutoresetMode
from pettingzoo.test import parallel_api_test, parallel_seed_test

import rookery
from rookery.sim.adapters.gymnasium_env import SingleEnv
from rookery.sim.adapters.gymnasium_vector import VectorEnv
from rookery.sim.adapters.pettingzoo_env import ParallelEnv
from rookery.sim.adapters.rows import episode_means
from rookery.sim.adapters.sb3_env import Sb3VecEnv
from rookery.sim.adapters.spaces import observation_space
from rookery.sim.columns import Columns
from rookery.sim.errors import RookeryError
from rookery.sim.rendering import window
from rookery.sim.specs import ActionSpec, Group, Term

SHORT = {"episode_s": 0.2}  # 20 control steps


@pytest.fixture
def no_warnings() -> Iterator[None]:
    """gymnasium's checkers speak of what they dislike by warning."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Box(-inf, inf) is what an unclipped term is
        warnings.filterwarnings("ignore", message=".*observation space (minimum|maximum) value is.*infinity.*")
        warnings.filterwarnings("ignore", message=".*not having a spec.*|.*spec.*None.*")
        yield


def test_single_env_passes_gymnasiums_checker(no_warnings: None) -> None:
    check_env(SingleEnv(rookery.make("drone-hover", config=SHORT)), skip_render_check=True)


def test_registered_env_passes_gymnasiums_checker(no_warnings: None) -> None:
    env = gymnasium.make("rookery/drone-hover-v0", config=SHORT)
    check_env(env.unwrapped, skip_render_check=True)
    env.close()


def test_single_env_keeps_the_last_observation() -> None:
    env = SingleEnv(rookery.make("drone-hover", config=SHORT))
    plain = rookery.make("drone-hover", config=SHORT)
    first, _ = env.reset(seed=3)
    want, _ = plain.reset(seed=3)
    assert np.array_equal(first, want["drone"].flatten().numpy())
    action = np.array([0.1, 0.0, 0.0, 0.2], dtype=np.float32)
    for i in range(20):
        obs, reward, terminated, truncated, info = env.step(action)
        new, r, _, cut, extra = plain.step(torch.from_numpy(action)[None, None])
        assert reward == pytest.approx(float(r["drone"]))
        last = i == 19
        assert (truncated, terminated) == (last, False)
        assert np.array_equal(obs, (extra["final_observation"] if last else new)["drone"].flatten().numpy())
    assert bool(cut)
    assert info["length"] == 20
    assert info["cause"] == "time limit"
    assert {"return", "success", "error_m"} <= info.keys()
    with pytest.raises(RookeryError, match="call reset"):
        env.step(action)
    begun, told = env.reset()
    assert np.array_equal(begun, new["drone"].flatten().numpy())  # the episode that VecEnv had begun
    assert told == {}
    obs, *_ = env.step(action)
    assert np.array_equal(obs, plain.step(torch.from_numpy(action)[None, None])[0]["drone"].flatten().numpy())
    assert np.array_equal(env.reset(seed=3)[0], first)
    env.close()


def test_vector_env_gives_tensors() -> None:
    envs = [gymnasium.make_vec("rookery/drone-hover-v0", 3, config=SHORT, tensors=t) for t in (True, False)]
    (tensor, _), (numpy, _) = (env.reset(seed=1) for env in envs)
    assert isinstance(tensor, torch.Tensor)
    assert np.array_equal(tensor.numpy(), numpy)
    for _ in range(20):
        action = torch.rand(3, 4)
        first, second = envs[0].step(action), envs[1].step(action.numpy())
        for a, b in zip(first[:4], second[:4], strict=True):
            assert isinstance(a, torch.Tensor)
            assert np.array_equal(a.numpy(), b)
    assert torch.equal(first[4]["final_obs"][0], torch.from_numpy(second[4]["final_obs"][0]))
    for env in envs:
        env.close()


def test_vector_env_is_a_same_step_vector_env() -> None:
    env = VectorEnv(rookery.make("drone-hover", 3, config=SHORT))
    plain = rookery.make("drone-hover", 3, config=SHORT)
    assert env.metadata["autoreset_mode"] is AutoresetMode.SAME_STEP
    size = plain.groups["drone"].observation_size
    assert env.single_observation_space.shape == (size,)
    assert env.observation_space.shape == (3, size)
    assert env.action_space.shape == (3, 4)
    obs, info = env.reset(seed=5)
    plain.reset(seed=5)
    plain.stagger()
    env.env.stagger()  # the worlds then end one after the other
    assert obs in env.observation_space
    assert info == {}
    ended = 0
    for _ in range(25):
        action = env.action_space.sample()
        obs, reward, terminated, truncated, info = env.step(action)
        new, r, term, cut, extra = plain.step(torch.from_numpy(action)[:, None])
        assert np.array_equal(obs, new["drone"][:, 0].numpy())
        assert np.array_equal(reward, r["drone"][:, 0].numpy())
        assert np.array_equal(terminated, term.numpy())
        assert np.array_equal(truncated, cut.numpy())
        assert (obs.dtype, reward.dtype, terminated.dtype, truncated.dtype) == (np.float32, np.float32, bool, bool)
        done = terminated | truncated
        if not done.any():
            assert info == {}
            continue
        ended += done.sum()
        assert np.array_equal(info["_final_obs"], done)
        assert np.array_equal(info["_final_info"], done)
        assert np.array_equal(info["final_info"]["_return"], done)
        for i in range(3):
            if done[i]:
                assert np.array_equal(info["final_obs"][i], extra["final_observation"]["drone"][i, 0].numpy())
                assert info["final_info"]["cause"][i] == ("time limit" if truncated[i] else "crash")
            else:
                assert info["final_obs"][i] is None
    assert ended >= 3
    env.close()
    assert env.closed


def test_vector_env_has_the_layout_of_gymnasiums_own() -> None:
    """The same keys and types as SyncVectorEnv in SAME_STEP mode gives for SingleEnv."""

    def single() -> gymnasium.Env[Any, Any]:
        return SingleEnv(rookery.make("drone-hover", config=SHORT))

    theirs = gymnasium.vector.SyncVectorEnv([single, single], autoreset_mode=AutoresetMode.SAME_STEP)
    ours = gymnasium.make_vec("rookery/drone-hover-v0", num_envs=2, config=SHORT)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.action_space == theirs.action_space
    infos = []
    for env in (theirs, ours):
        env.reset(seed=0)
        for _ in range(20):
            *_, info = env.step(np.zeros((2, 4), dtype=np.float32))
        infos.append(info)
    assert infos[0].keys() == infos[1].keys()
    a, b = (info["final_info"] for info in infos)
    assert {k: (v.dtype, v.shape) for k, v in a.items()} == {k: (v.dtype, v.shape) for k, v in b.items()}
    theirs.close()
    ours.close()


def test_gymnasiums_vector_wrappers_work() -> None:
    env = gymnasium.wrappers.vector.RecordEpisodeStatistics(VectorEnv(rookery.make("drone-hover", 2, config=SHORT)))
    env.reset(seed=0)
    for _ in range(20):
        *_, info = env.step(np.zeros((2, 4), dtype=np.float32))
    assert info["episode"]["l"].tolist() == [20, 20]
    env.close()


def test_several_agents_want_the_other_adapter_or_joint() -> None:
    vec = rookery.make("drone-hover", 2, config={**SHORT, "num_drones": 3})
    with pytest.raises(RookeryError, match=r"3 agents.*ParallelEnv.*joint=True"):
        VectorEnv(vec)
    env = VectorEnv(vec, joint=True)
    obs, _ = env.reset(seed=0)
    assert obs.shape == (2, 3 * vec.groups["drone"].observation_size)
    assert env.single_action_space.shape == (12,)
    plain = rookery.make("drone-hover", 2, config={**SHORT, "num_drones": 3})
    plain.reset(seed=0)
    action = env.action_space.sample()
    _, reward, *_ = env.step(action)
    want = plain.step(torch.from_numpy(action).view(2, 3, 4))[1]["drone"].mean(1)
    assert np.allclose(reward, want.numpy())
    env.close()


@pytest.mark.parametrize("drones", [1, 3])
def test_parallel_env_passes_pettingzoos_checkers(drones: int) -> None:
    def make() -> ParallelEnv:
        return ParallelEnv(rookery.make("drone-hover", config={**SHORT, "num_drones": drones}))

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parallel_api_test(make(), num_cycles=50)
        parallel_seed_test(make, num_cycles=50)


def test_parallel_env_gives_each_agent_its_row() -> None:
    config = {**SHORT, "num_drones": 2}
    env = ParallelEnv(rookery.make("drone-hover", config=config))
    plain = rookery.make("drone-hover", config=config)
    obs, infos = env.reset(seed=1)
    want, _ = plain.reset(seed=1)
    assert list(obs) == list(infos) == env.agents == ["drone_0", "drone_1"]
    assert np.array_equal(obs["drone_1"], want["drone"][0, 1].numpy())
    assert env.state().shape == (plain.state_size,)
    actions = {"drone_0": np.full(4, 0.1, dtype=np.float32), "drone_1": np.full(4, -0.1, dtype=np.float32)}
    tensor = torch.tensor([[[0.1] * 4, [-0.1] * 4]])
    steps = 0
    last = False
    while not last:
        steps += 1
        obs, reward, _, _, infos = env.step(actions)
        want, r, term, cut, extra = plain.step(tensor)
        last = bool(term | cut)
        assert np.array_equal(obs["drone_0"], (extra["final_observation"] if last else want)["drone"][0, 0].numpy())
        assert reward["drone_1"] == pytest.approx(float(r["drone"][0, 1]))
        assert last or np.array_equal(env.state(), plain.state[0].numpy())
    assert env.agents == []
    assert infos["drone_0"]["length"] == steps
    assert np.array_equal(env.state(), extra["final_state"][0].numpy())
    with pytest.raises(RookeryError, match="call reset"):
        env.step(actions)
    env.close()


def test_agent_that_drops_out_is_terminated_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    env = ParallelEnv(rookery.make("drone-hover", config={**SHORT, "num_drones": 2}))
    env.reset(seed=1)
    active = {"drone": torch.tensor([[True, False]])}
    monkeypatch.setattr(env.env.task, "active", lambda: active)
    still = np.zeros(4, dtype=np.float32)
    _, _, terminated, truncated, _ = env.step({"drone_0": still, "drone_1": still})
    assert terminated == {"drone_0": False, "drone_1": True}
    assert not any(truncated.values())
    assert env.agents == ["drone_0"]
    obs, *_ = env.step({"drone_0": still})
    assert list(obs) == ["drone_0"]
    env.close()


@pytest.mark.parametrize("adapter", [VectorEnv, Sb3VecEnv])
@pytest.mark.filterwarnings("error")
def test_actions_in_any_layout_of_memory_are_the_same_actions(adapter: Any) -> None:
    """Mirrored by `numpy.flip`, read-only as JAX gives them, of another byte order, or transposed."""
    action = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 4)).astype(np.float32)
    fixed = action.copy()
    fixed.flags.writeable = False
    layouts = [action, np.flip(np.flip(action, 1).copy(), 1), fixed, action.astype(">f4"), np.asfortranarray(action)]
    seen = []
    for layout in layouts:
        np.testing.assert_array_equal(layout, action)
        env = adapter(rookery.make("drone-hover", 3, seed=1))
        env.reset()
        seen.append(np.asarray(env.step(layout)[0]))
    assert all(np.array_equal(obs, seen[0]) for obs in seen)


def test_wrong_actions_are_refused_with_a_sentence() -> None:
    single = SingleEnv(rookery.make("drone-hover"))
    vector = VectorEnv(rookery.make("drone-hover", 2))
    parallel = ParallelEnv(rookery.make("drone-hover"))
    for env in (single, vector, parallel):
        env.reset(seed=0)
    with pytest.raises(RookeryError, match=r"shape \(4,\), got \(3,\)"):
        single.step(np.zeros(3))
    with pytest.raises(RookeryError, match="array of numbers"):
        single.step("up")
    with pytest.raises(RookeryError, match="NaN"):
        single.step(np.array([0, np.nan, 0, 0]))
    with pytest.raises(RookeryError, match=r"shape \(2, 4\), got \(4,\)"):
        vector.step(np.zeros(4))
    with pytest.raises(RookeryError, match="drone_0"):
        parallel.step({})
    with pytest.raises(RookeryError, match="one seed"):
        vector.reset(seed=[1, 2])  # type: ignore[arg-type]
    with pytest.raises(RookeryError, match="reset_mask"):
        vector.reset(options={"reset_mask": np.ones(2, dtype=bool)})


def test_single_adapters_want_one_world() -> None:
    for adapter in (SingleEnv, ParallelEnv):
        with pytest.raises(RookeryError, match="one world, got num_envs=2"):
            adapter(rookery.make("drone-hover", 2))
    with pytest.raises(RookeryError, match="unknown render mode 'rgb_aray': did you mean 'rgb_array'"):
        SingleEnv(rookery.make("drone-hover"), render_mode="rgb_aray")


def test_clipped_terms_bound_the_space() -> None:
    action = ActionSpec("a", ("x",), (0.0,), (1.0,), ("1",), (0.0,))
    space = observation_space(Group(2, (Term("free", 1), Term("clipped", 2, clip=3.0)), action), 2)
    assert space.high.tolist() == [np.inf, 3, 3, np.inf, 3, 3]
    assert space.low.tolist() == [-np.inf, -3, -3, -np.inf, -3, -3]


def test_render_gives_pictures() -> None:
    env = SingleEnv(rookery.make("drone-hover", config=SHORT), render_mode="rgb_array")
    env.reset(seed=0)
    picture = env.render()
    assert picture is not None
    assert picture.dtype == np.uint8
    assert picture.ndim == 3
    assert picture.std() > 5
    env.close()
    assert SingleEnv(rookery.make("drone-hover")).render() is None


@pytest.mark.parametrize("mode", ["rgb_array", None])
def test_render_modes_of_gymnasium(mode: str | None) -> None:
    """Through gymnasium's own makers, as users ask for it."""
    single = gymnasium.make("rookery/drone-hover-v0", render_mode=mode)
    single.reset(seed=0)
    single.step(single.action_space.sample())
    picture = single.render()
    assert (picture is None) == (mode is None)
    single.close()
    vector = gymnasium.make_vec("rookery/drone-hover-v0", num_envs=2, render_mode=mode)
    vector.reset(seed=0)
    pictures = vector.render()
    assert (pictures is None) == (mode is None)
    if mode is not None:
        assert isinstance(picture, np.ndarray) and isinstance(pictures, tuple)
        assert picture.dtype == np.uint8 and picture.std() > 5
        assert len(pictures) == 2 and not np.array_equal(pictures[0], pictures[1])
        assert mode in vector.metadata["render_modes"] and vector.render_mode == mode
    vector.close()


def test_human_without_a_screen_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.platform", "linux")
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    for make in (gymnasium.make, gymnasium.make_vec):
        with pytest.raises(RookeryError, match=r"no screen here .*: take render_mode=\"rgb_array\""):
            make("rookery/drone-hover-v0", render_mode="human")


@pytest.mark.slow
def test_human_shows_every_reset_and_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a screen that only counts what it is shown."""
    shown: list[np.ndarray] = []

    class Screen:
        def __init__(self, title: str, width: int, height: int) -> None:
            assert (title, width, height) == ("drone-hover", 640, 480)

        def show(self, picture: np.ndarray) -> None:
            shown.append(picture)

        def close(self) -> None:
            shown.append(np.zeros(0))

    monkeypatch.setattr(window, "check_screen", lambda: None)
    monkeypatch.setattr(window, "Window", Screen)
    for make, options in ((gymnasium.make, {}), (gymnasium.make_vec, {"num_envs": 2})):
        shown.clear()
        env = make("rookery/drone-hover-v0", render_mode="human", **options)
        env.reset(seed=0)
        for _ in range(3):
            env.step(env.action_space.sample())
        assert env.render() is None
        env.close()
        assert [p.shape for p in shown[:4]] == 4 * [(480, 640, 3)]
        assert not np.array_equal(shown[0], shown[3])
        assert shown[-1].size == 0


def test_means_in_logs_are_over_the_episodes_that_have_a_figure() -> None:
    nothing = np.nan
    values = np.array([[2.0, nothing, 4.0], [nothing] * 3, [1.0, 0.0, 1.0]], np.float32)
    episode = {"return": Columns(("drone",), np.ones((1, 3), np.float32)), "length": torch.tensor([1, 2, 3])}
    found = episode_means({"episode": episode | {"metrics": Columns(("time", "never", "success"), values)}})
    assert found == {"return": 1.0, "length": 2.0, "time": 3.0, "success": pytest.approx(2 / 3)}
