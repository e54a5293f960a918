"""The exported C on the microcontroller: cross-compiled for a Cortex-M4F and run in QEMU."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import onnx
import pytest
from sampled import slow_but

from rookery.sim.errors import RookeryError
from rookery.sim2real.build import build_contract
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.cpp_header import cpp_header
from rookery.sim2real.export.golden import write_golden
from rookery.sim2real.export.mcu import BOARDS, COMPILER, EMULATOR, SIZE, check_mcu
from rookery.sim2real.export.onnx import CONTRACT_KEY, GROUP_KEY
from tests.sim2real.conftest import make_env, make_policy


@pytest.fixture
def _tools() -> None:
    missing = [tool for tool in (COMPILER, SIZE, EMULATOR) if shutil.which(tool) is None]
    if missing:
        why = f"{missing} not installed: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm"
        pytest.skip(why)


def write_c_bundle(folder: Path, hidden: tuple[int, ...], activation: str) -> Path:
    """A bundle as far as the microcontroller needs it; exporting ONNX takes seconds."""
    policy = make_policy(hidden, activation)
    contract = build_contract(make_env(), {"drone": policy})
    code, header = c_source(contract, "drone", policy_arrays(policy), "rookery", "policy.h")
    folder.mkdir(exist_ok=True)
    (folder / "policy.c").write_text(code)
    (folder / "policy.h").write_text(header)
    (folder / "policy.hpp").write_text(cpp_header(contract, "drone", "rookery", "policy.h"))
    write_weights(folder / "policy.onnx", policy_arrays(policy), contract)
    write_golden(policy, contract.fingerprint, folder / "golden.npz")
    contract.write(folder / "contract.json")
    return folder


def write_weights(path: Path, arrays: dict[str, Any], contract: Contract) -> None:
    """An ONNX file with weights, metadata and sizes, and a network of another kind."""
    ends = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1, size])
        for name, size in (("obs", 15), ("action", 3))
    ]
    node = onnx.helper.make_node("Identity", ["obs"], ["action"])
    weights = [onnx.numpy_helper.from_array(a, name) for name, a in arrays.items()]
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "policy", ends[:1], ends[1:], weights))
    onnx.helper.set_model_props(model, {CONTRACT_KEY: contract.dumps(), GROUP_KEY: "drone"})
    onnx.save(model, path)


@pytest.mark.usefixtures("_tools")
@pytest.mark.parametrize("board", slow_but(list(BOARDS)[1:], BOARDS))
def test_whole_bundle(shared_bundle: Path, board: str) -> None:
    result = check_mcu(shared_bundle, board)
    assert result["mcu_max_error"] <= 1e-5
    weights = 4 * (15 * 32 + 32 + 32 * 32 + 32 + 32 * 3 + 3)
    assert weights < result["mcu_flash_bytes"] < weights + 2000
    assert 1000 < result["mcu_instructions"] < 100_000


@pytest.mark.usefixtures("_tools")
def test_the_target_writes_the_figures_beside_the_bundle(shared_bundle: Path, tmp_path: Path) -> None:
    contract = Contract.read(shared_bundle)
    folder = export_bundle({"drone": make_policy()}, contract, tmp_path / "out", target="mcu")
    assert {p.name for p in folder.iterdir()} == {*(p.name for p in shared_bundle.iterdir()), "mcu.json"}
    figures = json.loads((folder / "mcu.json").read_text())
    assert figures == {"board": "netduinoplus2", **check_mcu(shared_bundle)}


@pytest.mark.usefixtures("_tools")
@pytest.mark.parametrize(
    ("hidden", "activation"),
    slow_but([((96,), "relu")], [((64, 64), "tanh"), ((128, 64, 32), "elu"), ((96,), "relu"), ((), "tanh")]),
)
def test_networks(tmp_path: Path, hidden: tuple[int, ...], activation: str) -> None:
    assert check_mcu(write_c_bundle(tmp_path, hidden, activation))["mcu_max_error"] <= 1e-5


@pytest.mark.slow
@pytest.mark.usefixtures("_tools")
def test_a_wrong_network_is_found_and_a_large_one_does_not_fit(tmp_path: Path) -> None:
    write_c_bundle(tmp_path, (8,), "relu")
    code = tmp_path / "policy.c"
    code.write_text(code.read_text().replace("s0 + s1", "s0 - s1"))
    with pytest.raises(RookeryError, match=r"policy\.c differs from the torch policy"):
        check_mcu(tmp_path, run_c=True)
    with pytest.raises(RookeryError, match=r"policy\.c is not run"):
        check_mcu(tmp_path)
    write_c_bundle(tmp_path, (512, 512), "relu")
    with pytest.raises(RookeryError, match=r"overflowed.* 1024 KiB flash of netduinoplus2"):
        check_mcu(tmp_path)
    assert check_mcu(tmp_path, "mps2-an386")["mcu_max_error"] <= 1e-5


@pytest.mark.usefixtures("_tools")
def test_stack_use_is_what_the_header_says(tmp_path: Path) -> None:
    import subprocess

    from rookery.sim2real.export.mcu import CPU

    write_c_bundle(tmp_path, (64, 48), "tanh")
    command = [COMPILER, *CPU, "-std=c99", "-O2", "-fstack-usage", "-c", "policy.c", "-o", "policy.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    lines = [line.split("\t") for line in (tmp_path / "policy.su").read_text().splitlines()]
    each = {where.split(":")[-1].removeprefix("rookery_"): int(size) for where, size, _ in lines}
    outside = each.pop("step") + each.pop("act")
    after = ("start", "acted", "command", "reset", "remember")  # not under the others
    observing = sum(each.pop(name, 0) for name in ("observe_state", "observe", "turn", "conjugate", "within"))
    used = outside + max(observing, sum(size for name, size in each.items() if name not in after))
    stated = int(re.search(r"Stack of rookery_step: about (\d+) bytes", (tmp_path / "policy.h").read_text())[1])  # type: ignore[index]
    assert 0.5 * stated < used <= stated


@pytest.mark.usefixtures("_tools")
def test_ram_and_stack_are_measured(tmp_path: Path) -> None:
    """An array of known size that is planted in the C is found to the byte, in the stack or in RAM; a wider layer takes more
    stack, at least that of its rows, and no more than the header says."""
    planted = ("void rookery_policy(", "static float kept[100];\nvoid rookery_policy(")
    narrow, wide = (write_c_bundle(tmp_path / str(n), (n, n), "relu") for n in (16, 96))
    small, large = (check_mcu(folder) for folder in (narrow, wide))
    assert 4 * 80 <= large["mcu_stack_bytes"] - small["mcu_stack_bytes"] <= 2 * 4 * 80 + 32
    stated = re.search(r"Stack of rookery_step: about (\d+) bytes", (wide / "policy.h").read_text())
    assert stated is not None and 0.5 * int(stated[1]) < large["mcu_stack_bytes"] <= int(stated[1])
    assert small["mcu_ram_bytes"] == large["mcu_ram_bytes"] > 0
    code = (narrow / "policy.c").read_text()
    first, then = "{\n    volatile float own[2000];\n    own[0] = obs[0];", "kept[99] = own[0]; kept[0] += kept[99];"
    code = code.replace(*planted)
    at = code.index("{", code.index("void rookery_policy(")) + 1
    (narrow / "policy.c").write_text(code[: at - 1] + first + then + code[at:])
    more = check_mcu(narrow, run_c=True)
    assert more["mcu_ram_bytes"] - small["mcu_ram_bytes"] == 400
    assert more["mcu_stack_bytes"] - small["mcu_stack_bytes"] == pytest.approx(8000, abs=32)


def test_missing_tool_and_unknown_board_are_sentences(shared_bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RookeryError, match="did you mean 'mps2-an386'"):
        check_mcu(shared_bundle, "mps2-an385")
    monkeypatch.setattr(shutil, "which", lambda _: None)
    with pytest.raises(RookeryError, match="arm-none-eabi-gcc is not installed: `apt-get install"):
        check_mcu(shared_bundle)


SYSTEM = """
static int host(const char *command, int length)
{
    struct { const char *text; int length; } block = {command, length};
    register int operation __asm("r0") = 0x12; /* SYS_SYSTEM */
    register void *at __asm("r1") = &block;
    __asm volatile("bkpt 0xAB" : "+r"(operation) : "r"(at) : "memory");
    return operation;
}
"""


@pytest.mark.slow
@pytest.mark.usefixtures("_tools")
def test_the_emulated_program_starts_nothing_on_this_machine_and_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rookery.sim2real.export.mcu.EMULATE_S", 3)
    write_c_bundle(tmp_path, (8,), "relu")
    code = (tmp_path / "policy.c").read_text()
    made = tmp_path / "made"
    call = f'host("touch {made}", {len(f"touch {made}")});'
    (tmp_path / "policy.c").write_text(
        code.replace("normalize(obs, r0);", f"normalize(obs, r0); {call}").replace(
            "static float clamp", SYSTEM.replace("__asm", "__asm__") + "\nstatic float clamp", 1
        )
    )
    with pytest.raises(RookeryError, match="failed on the emulated"):
        check_mcu(tmp_path, run_c=True)
    assert not made.exists()
    (tmp_path / "policy.c").write_text(
        code.replace("normalize(obs, r0);", "normalize(obs, r0); while (obs != NULL) { }", 1).replace(
            "#include <math.h>", "#include <math.h>\n#include <stddef.h>"
        )
    )
    with pytest.raises(RookeryError, match="did not end in time"):
        check_mcu(tmp_path, run_c=True)
