"""The exported C on an emulated microcontroller: built for a Cortex-M4F, run in QEMU, compared with the golden vectors.

The default board carries an STM32F405, the Crazyflie's own chip. A small start-up file stands in for the firmware;
golden observations and answers travel through semihosting files. Counted instructions are those of the program; QEMU
knows nothing of the chip's wait states. The stack is measured: what lies below it is painted before a call, and what is
left of the paint is counted behind it.

Semihosting lets the emulated program open files of this machine with the user's rights. QEMU may start no other program.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from rookery.sim.errors import RookeryError, unknown
from rookery.sim.limited import run_limited
from rookery.sim.untrusted import read_bytes
from rookery.sim2real.contract import Contract
from rookery.sim2real.export.bundle import bundle_files
from rookery.sim2real.export.c import c_source
from rookery.sim2real.export.check import (
    Array,
    Golden,
    check_header,
    compare,
    open_onnx,
    read_bundle_contract,
    read_golden,
    read_weights,
)
from rookery.sim2real.export.exporter import Export, Exporter, TargetGuide
from rookery.sim2real.export.native import FLAGS, Header, compile_c
from rookery.sim2real.export.trust import with_zeros, write_source

COMPILER = "arm-none-eabi-gcc"
SIZE = "arm-none-eabi-size"
EMULATOR = "qemu-system-arm"
EMULATE_S = 120
"""s, most time for the emulated program."""
CPU = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16", "-ffunction-sections", "-fdata-sections")


@dataclass(frozen=True)
class Board:
    """Memory map and clock of a QEMU machine with a Cortex-M4F."""

    machine: str
    flash_at: int
    flash: int  # bytes
    ram: int  # bytes, at 0x20000000
    clock_hz: int  # of SysTick


BOARDS = {
    "netduinoplus2": Board("netduinoplus2", 0x08000000, 1 << 20, 128 << 10, 168_000_000),  # STM32F405, RM0090 2.3
    "mps2-an386": Board("mps2-an386", 0x00000000, 4 << 20, 4 << 20, 25_000_000),  # ARM DAI 0386
}


@dataclass(frozen=True)
class Footprint:
    """Needs of one group's policy.

    Args:
        flash, ram, stack: bytes.
        instructions: of the slowest call.
    """

    flash: int
    ram: int
    stack: int
    instructions: int


class Microcontroller(Exporter):
    """The bundle, with what its C takes on an emulated Cortex-M4 in mcu.json."""

    name = "mcu"
    includes = ("bundle",)
    files = ("mcu.json",)

    def guide(self, export: Export) -> TargetGuide:
        return TargetGuide(
            "mcu.json",
            "what the C takes on an emulated Cortex-M4F: flash, RAM, stack, instructions of a call",
            ("rookery export --check . --mcu    # measures it again",),
            f"Its compiler was `{COMPILER} {' '.join((*CPU, *FLAGS))}`.",
            (
                "QEMU's STM32F405 (`netduinoplus2`) and Cortex-M4 (`mps2-an386`)",
                "a microcontroller; QEMU counts instructions and knows no wait states",
            ),
        )

    def check(self, export: Export) -> None:
        _check_tools()

    def write(self, export: Export, folder: Path) -> None:
        board = "netduinoplus2"
        (folder / self.files[0]).write_text(json.dumps({"board": board, **check_mcu(folder, board)}, indent=2) + "\n")


def check_mcu(
    folder: Path | str, board: str = "netduinoplus2", tolerance: float = 1e-5, run_c: bool = False
) -> dict[str, float]:
    """Cross-compile a bundle's C, run it on an emulated Cortex-M4F, and compare. torch is not imported.

    Args:
        folder: what `export_bundle` wrote.
        board: "netduinoplus2" (1 MiB flash, 128 KiB RAM) or "mps2-an386" (4 MiB each).
        tolerance: largest difference allowed from the torch policy's actions.
        run_c: as in `check_bundle`.

    Returns:
        `mcu_max_error` over all groups, `mcu_flash_bytes` (code and weights of all groups, without the C library),
        `mcu_ram_bytes` (static data, and the structs of state, controller and loops, of all groups), `mcu_stack_bytes` (of the
        control step that takes most of it, as measured), `mcu_instructions` (a call of the slowest group's policy), and with
        weights of 8 bits `mcu_flash_bytes_float32` (what they would take with weights of 32).

    Raises:
        RookeryError: when the board is unknown, a tool is missing, the C may not run, the program does not fit the board,
            or a difference exceeds the tolerance.
    """
    if board not in BOARDS:
        raise unknown("board", board, BOARDS)
    _check_tools()
    folder = Path(folder)
    contract = read_bundle_contract(folder)
    result = {
        "mcu_max_error": 0.0,
        "mcu_flash_bytes": 0,
        "mcu_ram_bytes": 0,
        "mcu_stack_bytes": 0,
        "mcu_instructions": 0,
    }
    for group, files in bundle_files(contract).items():
        model = open_onnx(folder / files["onnx"], contract, group)
        weights = read_weights(model, folder / files["onnx"])
        golden = read_golden(folder / files["golden"], contract, group)
        header = check_header(folder / files["h"], contract, group)
        with tempfile.TemporaryDirectory(prefix="rookery-mcu-") as build:
            source = write_source(folder, files, contract, group, header, weights, Path(build), run_c)
            needs, answer = _run(source, folder / files["c"], header, golden, BOARDS[board])
        error = compare(answer, golden, tolerance, folder / files["c"])
        result["mcu_max_error"] = max(result["mcu_max_error"], error)
        result["mcu_flash_bytes"] += needs.flash
        result["mcu_ram_bytes"] += needs.ram
        result["mcu_stack_bytes"] = max(result["mcu_stack_bytes"], needs.stack)
        if contract.groups[group].quantization is not None:
            plain = _float_bytes(contract, group, weights, header)
            result["mcu_flash_bytes_float32"] = result.get("mcu_flash_bytes_float32", 0) + plain
        result["mcu_instructions"] = max(result["mcu_instructions"], needs.instructions)
    return result


def _check_tools() -> None:
    for tool in (COMPILER, SIZE, EMULATOR):
        if shutil.which(tool) is None:
            raise RookeryError(
                f"{tool} is not installed: `apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm`."
            )


def _run(source: Path, shown: Path, header: Header, golden: Golden, board: Board) -> tuple[Footprint, Array]:
    """Build and run one group's policy, `source` in a temporary folder: its needs, answers."""
    build = source.parent
    policy = build / "policy.o"
    program = build / "program.elf"
    (build / "main.c").write_text(_main_text(source, header))
    (build / "kept.c").write_text(_kept_text(source, header))
    places = {"@FLASH_AT@": board.flash_at, "@FLASH@": board.flash, "@RAM@": board.ram}
    (build / "board.ld").write_text(_fill(BOARD_LD, places))
    for code, made in ((source, policy), (build / "kept.c", build / "kept.o")):
        compile_c([COMPILER, *CPU, *FLAGS, "-c", str(code), "-o", str(made)], shown, build)
    parts = [str(build / "main.c"), str(policy)]
    link = ["-T", str(build / "board.ld"), "--specs=rdimon.specs", "-Wl,--gc-sections", "-o", str(program), "-lm"]
    fit = f"it must fit into the {board.flash >> 10} KiB flash of {board.machine}, so take another board or network"
    compile_c([COMPILER, *CPU, "-O2", *parts, *link], shown, build, fit)
    # before each observation a number that is not zero where an episode starts, behind it mask and events
    starts = np.zeros(len(golden.observations)) if golden.start is None else golden.start
    told = [x for x in (golden.mask, golden.events) if x is not None]
    np.column_stack((starts, golden.observations, *told)).astype(np.float32).tofile(build / "obs.bin")
    _emulate(program, board.machine, build)
    answer = build / "action.bin"
    wanted = golden.answers.nbytes + 8
    raw = _bytes(answer, wanted)
    if len(raw) != wanted:
        raise RookeryError(f"{shown} stopped early on the emulated {board.machine}: export the bundle again.")
    ticks, stack = map(int, np.frombuffer(raw[-8:], np.uint32))
    # With -icount shift=0 an instruction takes 1 ns of the machine's time.
    instructions = round(ticks * 1e9 / board.clock_hz)
    text, data, bss = _sizes(policy)
    needs = Footprint(text + data, data + bss + sum(_sizes(build / "kept.o")[1:]), stack, instructions)
    return needs, np.frombuffer(raw[:-8], np.float32).reshape(golden.answers.shape)


def _kept_text(source: Path, header: Header) -> str:
    """C of the structs that a program keeps for a policy."""
    declared = source.with_suffix(".h").read_text(encoding="ascii")
    names = [n for n in ("state", "controller", "sensed", "loops") if f"}} {header.prefix}_{n};" in declared]
    lines = [f"{header.prefix}_{name} {name}_of_policy;" for name in names]
    return "\n".join([f'#include "{source.stem}.h"', *lines, f"float command_of_policy[{header.actions}];", ""])


def _main_text(source: Path, header: Header) -> str:
    """C of the program that runs a policy over golden observations."""
    remembers = header.memory > 0
    declared = f"static {header.prefix}_memory memory;" if remembers else ""
    flags = {"allowed": header.mask, "events": header.events}
    declared += "".join(f" static unsigned char {name}[{size}];" for name, size in flags.items() if size)
    given = "".join(f"{name}, " for name, size in flags.items() if size) + "&memory, " * remembers
    names = {
        "@DECLARED@": declared,
        "@READ_FLAGS@": _read_flags(flags),
        "@GIVEN@": given + f"&answer[{header.actions}], " * (header.options > 0),
        "@RESET@": f"{header.prefix}_reset(&memory);" if remembers else "",
        "@FLAGS@": header.mask + header.events,
        "@ANSWERS@": header.actions + header.options,
        "@HEADER@": f"{source.stem}.h",
        "@PREFIX@": header.prefix,
        "@UPPER@": header.prefix.upper(),
        "@ALLOWED@": "allowed, " * (header.mask > 0),
        "@FLAGS_OF_STEP@": f"static unsigned char allowed[{header.mask}];" * (header.mask > 0),
    }
    return _fill(MAIN_C, names)


def _read_flags(flags: Mapping[str, int]) -> str:
    """C that takes the flags of a row, which stand one after the other behind the observation."""
    out, at = "", 0
    for name, size in flags.items():
        out += _fill(READ_C, {"@NAME@": name, "@SIZE@": size, "@AT@": at}) * (size > 0)
        at += size
    return out


def _emulate(program: Path, machine: str, build: Path) -> None:
    command = [EMULATOR, "-M", machine, "-nographic", "-monitor", "none", "-serial", "none", "-icount", "shift=0"]
    command += ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"]
    command += ["-semihosting-config", "enable=on,target=native", "-kernel", str(program)]
    done = run_limited(command, build, EMULATE_S)
    if done.status != 0:
        raise RookeryError(
            f"the policy failed on the emulated {machine} ({done.reason}): check the bundle without --mcu."
        )


def _bytes(path: Path, most: int) -> bytes:
    """Output of the program; nothing where it is missing or too much."""
    try:
        return read_bytes(path, most)
    except (OSError, ValueError):
        return b""


def _float_bytes(contract: Contract, group: str, weights: Mapping[str, Array], header: Header) -> int:
    """Flash of the same policy with weights of 32 bits."""
    groups = {**contract.groups, group: replace(contract.groups[group], quantization=None)}
    code, declared = c_source(
        replace(contract, groups=groups), group, with_zeros(contract, group, weights), header.prefix, "policy.h"
    )
    with tempfile.TemporaryDirectory(prefix="rookery-mcu-") as build:
        source = Path(build) / "policy.c"
        source.write_text(code, encoding="ascii")
        source.with_name("policy.h").write_text(declared, encoding="ascii")
        compile_c(
            [COMPILER, *CPU, *FLAGS, "-c", str(source), "-o", str(source.with_suffix(".o"))], source, source.parent
        )
        return sum(_sizes(source.with_suffix(".o"))[:2])


def _sizes(compiled: Path) -> tuple[int, int, int]:
    """Bytes of an object file: code and constants, initialized data, data that begins as 0."""
    done = run_limited([SIZE, str(compiled)], compiled.parent, 10)
    text, data, bss = map(int, done.output.splitlines()[1].split()[:3])
    return text, data, bss


def _fill(template: str, values: Mapping[str, Any]) -> str:
    for mark, value in values.items():
        template = template.replace(mark, str(value))
    return template


MAIN_C = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include "@HEADER@"

#define PAINT 0xA5C3F00Du
#define PAINTED 65536u /* bytes below the stack, at most */
#define SP(pointer) __asm volatile("mov %0, sp" : "=r"(pointer))

extern void _exit(int);
extern void *_sbrk(int);
extern void _start(void);
extern uint32_t stack_top;

static void reset(void)
{
    *(volatile uint32_t *)0xE000ED88u |= 0xFu << 20; /* CPACR: switch the FPU on */
    __asm volatile("dsb\\n isb");
    _start();
}

static void fault(void)
{
    _exit(3);
}

__attribute__((section(".vectors"), used)) static const void *const vectors[16] = {
    &stack_top, (void *)reset, (void *)fault, (void *)fault, (void *)fault, (void *)fault, (void *)fault,
};

/* Paint what is free below `top`, and return where the paint begins. */
static volatile uint32_t *paint(volatile uint32_t *top)
{
    volatile uint32_t *heap = (volatile uint32_t *)(((uint32_t)_sbrk(0) + 64u) & ~3u);
    volatile uint32_t *bottom = top - PAINTED / 4u;
    volatile uint32_t *at;

    bottom = (bottom < heap) ? heap : bottom;
    for (at = top; at > bottom;) {
        *--at = PAINT;
    }
    return bottom;
}

/* Bytes below `top` that were written since. */
static uint32_t touched(volatile uint32_t *top, volatile uint32_t *bottom)
{
    while (bottom < top && *bottom == PAINT) {
        bottom++;
    }
    return (uint32_t)(top - bottom) * 4u;
}

/* Stack of a whole control step. */
static uint32_t step_stack(void)
{
    static @PREFIX@_controller controller;
    static @PREFIX@_state state;
    static float command[@UPPER@_POLICY_ACTIONS];
    @FLAGS_OF_STEP@
    volatile uint32_t *top;
    volatile uint32_t *bottom;
    uint32_t most = 0;
    unsigned int i;

    for (i = 0; i < sizeof state / sizeof(float); i++) {
        const float number = 0.01f * (float)(i + 1u);

        memcpy((char *)&state + i * sizeof number, &number, sizeof number);
    }
    @PREFIX@_start(&controller);
    for (i = 0; i < 3; i++) {
        uint32_t used;

        SP(top);
        bottom = paint(top);
        @PREFIX@_step(&controller, &state, @ALLOWED@command);
        used = touched(top, bottom);
        most = (used > most) ? used : most;
    }
    return most;
}

int main(void)
{
    static float row[1 + @UPPER@_POLICY_OBSERVATIONS + @FLAGS@];
    static float answer[@ANSWERS@]; /* actions, then logits */
    @DECLARED@
    volatile uint32_t *systick = (volatile uint32_t *)0xE000E010u; /* counts down, 24 bits */
    FILE *in = fopen("obs.bin", "rb");
    FILE *out = fopen("action.bin", "wb");
    uint32_t worst = 0;
    uint32_t deepest;
    volatile uint32_t *top;
    volatile uint32_t *bottom;

    deepest = step_stack();
    systick[1] = 0xFFFFFFu;
    systick[2] = 0u;
    systick[0] = 5u;
    while (in != NULL && out != NULL && fread(row, sizeof row, 1, in) == 1) {
        uint32_t before;
        uint32_t ticks;
        uint32_t used;

        if (row[0] != 0.0f) {
            @RESET@
        }
        @READ_FLAGS@
        SP(top);
        bottom = paint(top);
        before = systick[2];
        @PREFIX@_policy(&row[1], @GIVEN@answer);
        ticks = (before - systick[2]) & 0xFFFFFFu;
        used = touched(top, bottom);
        deepest = (used > deepest) ? used : deepest;
        worst = (ticks > worst) ? ticks : worst;
        fwrite(answer, sizeof answer, 1, out);
    }
    fwrite(&worst, sizeof worst, 1, out);
    fwrite(&deepest, sizeof deepest, 1, out);
    return fclose(out);
}
"""

READ_C = """
        for (int i = 0; i < @SIZE@; i++) {
            @NAME@[i] = (row[1 + @UPPER@_POLICY_OBSERVATIONS + @AT@ + i] != 0.0f);
        }"""

# .data is placed straight into RAM: QEMU loads it there, so that the start-up code need not copy it.
BOARD_LD = """
MEMORY {
  FLASH (rx) : ORIGIN = @FLASH_AT@, LENGTH = @FLASH@
  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = @RAM@
}
stack_top = ORIGIN(RAM) + LENGTH(RAM);
ENTRY(_start)
SECTIONS {
  .text : { KEEP(*(.vectors)) *(.text*) *(.rodata*) KEEP(*(.init)) KEEP(*(.fini)) } > FLASH
  .preinit_array : { __preinit_array_start = .; KEEP(*(.preinit_array*)) __preinit_array_end = .; } > FLASH
  .init_array : { __init_array_start = .; KEEP(*(.init_array*)) __init_array_end = .; } > FLASH
  .fini_array : { __fini_array_start = .; KEEP(*(.fini_array*)) __fini_array_end = .; } > FLASH
  .ARM.exidx : { __exidx_start = .; *(.ARM.exidx*) __exidx_end = .; } > FLASH
  .data : { *(.data*) } > RAM
  .bss : { __bss_start__ = .; *(.bss*) *(COMMON) __bss_end__ = .; end = .; __end__ = .; } > RAM
}
"""
