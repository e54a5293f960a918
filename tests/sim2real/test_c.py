"""The exported C: parity with torch, strict C99, nothing but math, safe to call from many threads."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sampled import slow_but

from rookery.policies.policy import Policy, layers_of
from rookery.policies.stages.standard import standard
from rookery.sim.errors import RookeryError
from rookery.sim.specs import ActionSpec, Group, Term
from rookery.sim2real.build import build_contract
from rookery.sim2real.export.c import c_source, literal, policy_arrays
from rookery.sim2real.export.golden import golden_observations
from rookery.sim2real.export.native import FLAGS, NativePolicy, compile_library, find_compiler, read_header
from tests.sim2real.conftest import make_env, make_group, make_policy


def native(policy: Policy, folder: Path, group: Group | None = None, prefix: str = "rookery") -> NativePolicy:
    """The policy's C, compiled with the promised flags."""
    contract = build_contract(make_env(drone=group or make_group()), {"drone": policy})
    code, header = c_source(contract, "drone", policy_arrays(policy), prefix, "policy.h")
    (folder / "policy.c").write_text(code)
    (folder / "policy.h").write_text(header)
    return NativePolicy(compile_library(folder / "policy.c", folder), read_header(folder / "policy.h"))


def observations(policy: Policy) -> Any:
    return golden_observations(policy)


def torch_actions(policy: Policy, obs: Any) -> Any:
    with torch.no_grad():
        return policy(torch.from_numpy(obs)).numpy()


SIZES = ((), (1,), (7, 5, 3), (64, 64), (256, 128, 64))
NETWORKS = [(hidden, activation) for hidden in SIZES for activation in ("tanh", "elu", "relu")]


@pytest.mark.parametrize(
    ("hidden", "activation"),
    slow_but(
        [((), "tanh"), ((1,), "relu"), ((7, 5, 3), "elu"), ((64, 64), "relu"), ((256, 128, 64), "tanh")], NETWORKS
    ),
)
def test_parity_with_torch(activation: str, hidden: tuple[int, ...], tmp_path: Path) -> None:
    policy = make_policy(hidden, activation)
    obs = observations(policy)
    assert len(obs) >= 1000
    wanted = torch_actions(policy, obs)
    assert np.abs(native(policy, tmp_path).policy(obs) - wanted).max() <= 1e-5
    inside = np.abs(wanted) < 1.0
    assert inside.mean() > 0.1, "a test of clipped actions only would prove nothing"


@pytest.mark.parametrize("hidden", [(), (7, 5, 3), (256, 128, 64)])
def test_tanh_squash(hidden: tuple[int, ...], tmp_path: Path) -> None:
    """The last stage of a policy trained by SAC; a clip in its place would be off by far more than rounding."""
    policy = make_policy(hidden, "relu", squash="tanh")
    obs = observations(policy)
    wanted = torch_actions(policy, obs)
    answer = native(policy, tmp_path).policy(obs)
    assert np.abs(answer - wanted).max() <= 1e-5
    assert np.abs(torch_actions(make_policy(hidden, "relu"), obs) - wanted).max() > 0.1
    assert np.abs(answer).max() <= 1.0
    assert "final tanh" in (tmp_path / "policy.h").read_text()


def test_golden_observations_reach_the_clip() -> None:
    policy = make_policy()
    z = (observations(policy) - policy.get_buffer("normalize.mean").numpy()) / policy.get_buffer(
        "normalize.std"
    ).numpy()
    beyond = np.abs(z) > 5.0
    assert beyond.all(axis=1).any()
    assert not beyond[:800].any(axis=1).all()
    assert np.isfinite(z).all()


def test_single_input_and_output(tmp_path: Path) -> None:
    group = Group(1, (Term("x", 1),), ActionSpec("force", ("u",), (-1.0,), (1.0,), ("N",), (0.0,)))
    policy = Policy(standard(1, 1, (4,), "elu"))
    obs = observations(policy)
    assert np.abs(native(policy, tmp_path, group).policy(obs) - torch_actions(policy, obs)).max() <= 1e-5


def test_scaling_functions(tmp_path: Path) -> None:
    compiled = native(make_policy(), tmp_path)
    raw = np.full((1, 15), 2.0, np.float32)
    raw[0, 12:] = (-2.0, 20.0, -20.0)
    np.testing.assert_allclose(compiled.observe(raw)[0], [2.0] * 12 + [-0.6, 4.0, -4.0], rtol=1e-6)
    np.testing.assert_allclose(compiled.command(np.float32([[-1.0, 1.0, 0.0]])), [[0.0, 6.0, 0.0]], atol=1e-6)
    np.testing.assert_allclose(compiled.command(np.float32([[9.0, -9.0, 0.5]])), [[0.6, -6.0, 3.0]], atol=1e-6)


def test_a_hidden_term_reaches_the_network_as_zeros(tmp_path: Path) -> None:
    group = make_group()
    terms = (group.observation[0], replace(group.observation[1], hidden=True), group.observation[2])
    first, last = group.observation[0].size, group.observation[0].size + group.observation[1].size
    compiled = native(make_policy(), tmp_path, replace(group, observation=terms))
    raw = np.random.default_rng(1).standard_normal((5, group.frame_size)).astype(np.float32)
    got = compiled.observe(raw)
    assert (got[:, first:last] == 0.0).all()
    assert (got[:, :first] != 0.0).all() and (got[:, last:] != 0.0).all()


@pytest.mark.parametrize("activation", ["tanh", "elu", "relu"])
def test_nan_is_not_hidden(activation: str, tmp_path: Path) -> None:
    obs = np.zeros((1, 15), np.float32)
    obs[0, 3] = np.nan
    assert np.isnan(native(make_policy((8,), activation), tmp_path).policy(obs)).all()


def test_source_needs_only_math(tmp_path: Path) -> None:
    native(make_policy(), tmp_path)
    text = (tmp_path / "policy.c").read_text() + (tmp_path / "policy.h").read_text()
    includes = {line.split()[1] for line in text.splitlines() if line.startswith("#include")}
    assert includes == {"<math.h>", '"policy.h"'}
    for word in ("malloc", "calloc", "free(", "printf", "stdio", "goto", "double"):
        assert word not in text


def test_source_is_clean_beyond_the_promised_flags(tmp_path: Path) -> None:
    native(make_policy((8,), "elu"), tmp_path)
    strict = ["-Wvla", "-Wshadow", "-Wdouble-promotion", "-Wmissing-prototypes", "-Wcast-qual"]
    strict += ["-Wundef"] if "gcc" not in find_compiler() else ["-Wundef", "-Wconversion"]
    command = [*find_compiler(), *FLAGS, *strict, "-c", str(tmp_path / "policy.c"), "-o", str(tmp_path / "policy.o")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_object_has_no_writable_data_and_calls_only_math(tmp_path: Path) -> None:
    if shutil.which("nm") is None:
        pytest.skip("no nm on this machine")
    native(make_policy((8,), "elu"), tmp_path)
    target = tmp_path / "policy.o"
    subprocess.run([*find_compiler(), *FLAGS, "-c", str(tmp_path / "policy.c"), "-o", str(target)], check=True)
    lines = subprocess.run(["nm", str(target)], capture_output=True, text=True, check=True).stdout.splitlines()
    symbols = [(line.split()[-2], line.split()[-1]) for line in lines]
    assert {kind for kind, _ in symbols} <= {"r", "T", "t", "U"}, "data or bss would not be reentrant"
    assert {name for kind, name in symbols if kind == "U"} <= {
        "expm1f",
        "fmodf",
        "_GLOBAL_OFFSET_TABLE_",
        "__stack_chk_fail",
    }


def test_reentrant(tmp_path: Path) -> None:
    policy = make_policy((128, 128), "elu")
    compiled = native(policy, tmp_path)
    obs = observations(policy)
    parts = [np.roll(obs, 97 * i, axis=0) for i in range(4)]
    alone = [compiled.policy(part) for part in parts]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(compiled.policy, parts * 5))
    for i, actions in enumerate(together):
        assert np.array_equal(actions, alone[i % 4])


def test_two_policies_link_into_one_program(tmp_path: Path) -> None:
    """Each gives its own actions, for observations of zeros."""
    expected = []
    for seed, prefix in enumerate(("keeper", "striker")):
        (tmp_path / prefix).mkdir()
        policy = make_policy((4,), seed=seed)
        native(policy, tmp_path / prefix, prefix=prefix)
        expected.append(policy(torch.zeros(1, policy.observation_size))[0].tolist())
    main = '#include <stdio.h>\n#include "keeper/policy.h"\n#include "striker/policy.h"\n'
    main += "int main(void) { float o[KEEPER_POLICY_OBSERVATIONS] = {0}, a[STRIKER_POLICY_ACTIONS]; int i;\n"
    for prefix in ("keeper", "striker"):
        main += f"{prefix}_policy(o, a);\n"
        main += 'for (i = 0; i < STRIKER_POLICY_ACTIONS; i++) { printf("%.9g ", (double)a[i]); }\n'
    main += "return 0; }\n"
    (tmp_path / "main.c").write_text(main)
    sources = [str(tmp_path / p) for p in ("main.c", "keeper/policy.c", "striker/policy.c")]
    program = str(tmp_path / "main")
    subprocess.run([*find_compiler(), *FLAGS, *sources, "-o", program, "-lm"], check=True)
    done = subprocess.run([program], check=True, capture_output=True, text=True)
    assert [float(x) for x in done.stdout.split()] == pytest.approx([*expected[0], *expected[1]], abs=1e-5)
    assert expected[0] != pytest.approx(expected[1], abs=1e-3)


def test_sanitizers_find_nothing(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip("the sanitizers are tried with gcc only")
    native(make_policy((7, 5), "elu"), tmp_path)
    main = '#include "policy.h"\nint main(void) { float obs[15], action[3]; int i, k;\n'
    main += "for (k = -50; k < 50; k++) { for (i = 0; i < 15; i++) { obs[i] = (float)(k * i) * 1e35f; }\n"
    main += "rookery_observe(obs, obs); rookery_policy(obs, action); rookery_command(action, action); } return 0; }\n"
    (tmp_path / "main.c").write_text(main)
    sanitize = ["-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    program = str(tmp_path / "main")
    command = ["gcc", *FLAGS, *sanitize, str(tmp_path / "main.c"), str(tmp_path / "policy.c"), "-o", program, "-lm"]
    subprocess.run(command, check=True)
    done = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_names_cannot_break_out_of_the_comment(tmp_path: Path) -> None:
    action = ActionSpec(
        "*/ int evil; /*", ("a\n*/", "b??/", 'c"\\'), (0.0,) * 3, (1.0,) * 3, ("/*", "µ", "1"), (0.0,) * 3
    )
    group = Group(1, (Term("*/", 14, unit="/*/", frame="\\"), Term("y", 1)), action)
    policy = make_policy((4,))
    obs = observations(policy)
    assert np.abs(native(policy, tmp_path, group).policy(obs) - torch_actions(policy, obs)).max() <= 1e-5
    code = (tmp_path / "policy.h").read_text()
    assert code.index("evil") < code.index("*/"), "still inside the first comment"


def test_header_documents_every_line(tmp_path: Path) -> None:
    native(make_policy(), tmp_path)
    header = " ".join((tmp_path / "policy.h").read_text().split())
    for row in (
        "* 12..14 linear_velocity m/s world 0.3 4",
        "* 0..2 position_error m world 1 none target - position, world axes",
        "* 3..11 rotation 1 - 1 none phases",
        "* 0 thrust N 0 0.6 0.27",  # -0.1 of [-1, 1]
        "void rookery_policy(const float obs[15], float action[3]);",
    ):
        assert row in header


def test_literals_give_the_same_float_back() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2**32, 20_000, dtype=np.uint32).view(np.float32)
    values = values[np.isfinite(values)]
    words = [literal(float(v)) for v in values]
    assert all(w.endswith("f") and ("." in w or "e" in w) for w in words)
    assert np.array_equal(np.array([float(w[:-1]) for w in words], np.float32), values)
    with pytest.raises(RookeryError, match="32-bit float"):
        literal(1e39)


def test_policies_that_cannot_fly_are_refused(tmp_path: Path) -> None:
    sick = make_policy()
    with torch.no_grad():
        layers_of(sick)[1].bias[0] = torch.nan
    with pytest.raises(RookeryError, match=r"NaN or infinity in perceptron\.bias_1"):
        native(sick, tmp_path)
    flat = make_policy()
    flat.get_buffer("normalize.std")[2] = 0.0
    with pytest.raises(RookeryError, match="standard deviation"):
        native(flat, tmp_path)
    with pytest.raises(RookeryError, match="cannot begin C names"):
        native(make_policy(), tmp_path, prefix="3d printer")


def test_no_compiler_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    nothing: Any = SimpleNamespace(which=lambda _: None)
    monkeypatch.setattr("rookery.sim2real.export.native.shutil", nothing)
    monkeypatch.setattr("rookery.sim2real.export.native.importlib.util.find_spec", lambda _: None)
    with pytest.raises(RookeryError, match=r"no C compiler .* install one"):
        find_compiler()
