"""`rookery export`: write the bundle for hardware, or check one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from rookery.cli.options import Json, announce, print_json
from rookery.sim.errors import RookeryError
from rookery.sim2real.export.exporters import EXPORTERS

EXAMPLES = """
  rookery export runs/drone-hover/latest --out bundle
  rookery export runs/drone-hover/latest --out network --target onnx
  rookery export --check bundle
  rookery export --check bundle --json
  rookery export --check bundle --mcu
  rookery export --check bundle --run-c
"""


@dataclass(frozen=True)
class Args:
    """Write a policy for hardware, or check a bundle.

    A bundle holds policy.c, policy.h and policy.hpp (C99 and C++17, no malloc), which go from measured state to actuator
    command, policy.onnx, contract.json, which defines every input and output, golden.npz, observations with the actions of
    the network, and a README that says how to call it. --target writes something else, such as the
    network alone. --check reloads it without PyTorch and
    compares ONNX Runtime and the compiled C with those actions. Only C that Rookery itself generates from the bundle's
    contract and weights is run; other C needs --run-c, and then runs with your rights.
    """

    run: Annotated[
        tyro.conf.Positional[Path | None],
        tyro.conf.arg(metavar="RUN", help="Run folder of `rookery train`, or a zoo policy's name (`rookery list`)."),
    ] = None
    out: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help="Folder of the new bundle or of another target.")] = (
        None
    )
    target: Annotated[
        str | None,
        tyro.conf.arg(
            metavar="NAME",
            help=f"Exporter: {', '.join(EXPORTERS)}, or one of your own as FILE.py:Class. Default: bundle.",
        ),
    ] = None
    int8: Annotated[
        bool,
        tyro.conf.arg(help="Round the weights to 8 bits: a quarter of the flash; the contract says what it costs."),
    ] = False
    overwrite: Annotated[bool, tyro.conf.arg(help="Replace an older export in --out.")] = False
    check: Annotated[Path | None, tyro.conf.arg(metavar="DIR", help="Bundle to check.")] = None
    mcu: Annotated[
        bool,
        tyro.conf.arg(help="With --check: also run the C on an emulated Cortex-M4 (arm-none-eabi-gcc and QEMU)."),
    ] = False
    run_c: Annotated[
        bool,
        tyro.conf.arg(help="With --check: also run C that was edited or written by someone else, with your rights."),
    ] = False
    json: Json = False


def run(args: Args) -> int:
    """Export or check; an error where a check fails."""
    if args.check is not None:
        if (args.run, args.out, args.target, args.overwrite, args.int8) != (None, None, None, False, False):
            raise RookeryError("--check takes a bundle alone: export first, then `rookery export --check DIR`.")
        return _check(args.check, args.mcu, args.run_c, args.json)
    for option, given in (("--mcu", args.mcu), ("--run-c", args.run_c)):
        if given:
            raise RookeryError(f"{option} belongs to a check: write `rookery export --check DIR {option}`.")
    if args.run is None or args.out is None:
        raise RookeryError("give a run and --out DIR to export, or --check DIR: see `rookery export --help`.")
    from rookery.experiments.runs import open_run
    from rookery.sim2real.export.bundle import export_bundle
    from rookery.sim2real.export.exporters import exporters_for

    target = args.target or "bundle"
    checked = "bundle" in [each.name for each in exporters_for(target)]
    policies, contract = open_run(args.run)
    announce(args.run)
    export_bundle(policies, contract, args.out, target=target, overwrite=args.overwrite, int8=args.int8)
    rounding = _rounding(args.out) if args.int8 else {}
    written = sorted(f for f in args.out.rglob("*") if f.is_file())
    files = {f.relative_to(args.out).as_posix(): f.stat().st_size for f in written}
    if args.json:
        facts = {"bundle": str(args.out), "task": contract.task_id, "target": target, "files": files}
        print_json(facts | ({"int8_largest_difference": rounding} if rounding else {}))
        return 0
    print(f"exported {contract.task_id} to {args.out}")
    for name, size in files.items():
        print(f"  {name:16} {size:>9,} bytes")
    for group, difference in rounding.items():
        of = ", each network of the hierarchy by itself" if policies[group].chain.decisions else ""
        print(
            f"8-bit weights: an action of {group} in [-1, 1] differs by at most {difference:.2g} over golden observations{of}"
        )
    if checked:
        print(f"Check it with: rookery export --check {args.out}")
    return 0


def _rounding(folder: Path) -> dict[str, float]:
    """By group, the largest difference that 8-bit weights make."""
    from rookery.sim2real.contract import Contract

    groups = Contract.read(folder).groups.items()
    return {name: g.quantization.largest_difference for name, g in groups if g.quantization is not None}


def _check(bundle: Path, mcu: bool, run_c: bool, as_json: bool) -> int:
    from rookery.sim2real.export.check import check_bundle

    result = check_bundle(bundle, run_c=run_c)
    if mcu:
        from rookery.sim2real.export.mcu import check_mcu

        result |= check_mcu(bundle, run_c=run_c)
    if as_json:
        print_json({"bundle": str(bundle), **result})
        return 0
    print(f"{bundle} is right: {result['observations']} observations, largest difference from the trained network")
    print(f"  ONNX Runtime  {result['onnx_max_error']:.2g}")
    print(f"  compiled C    {result['c_max_error']:.2g}")
    if mcu:
        size = result["mcu_flash_bytes"] / 1000
        ram, stack = result["mcu_ram_bytes"], result["mcu_stack_bytes"]
        instructions = result["mcu_instructions"] / 1000
        print(
            f"  Cortex-M4     {result['mcu_max_error']:.2g}, {size:.1f} kB flash, {ram:.0f} B RAM, {stack:.0f} B stack, "
            f"{instructions:.0f} k instructions a call"
        )
        if "mcu_flash_bytes_float32" in result:
            print(f"                {result['mcu_flash_bytes_float32'] / 1000:.1f} kB flash with weights of 32 bits")
    return 0
