"""Golden vectors in C: a program that has them and the exported network finds that it answers as in training."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from rookery.policies.policy import Policy
from rookery.policies.stages.choose import Choose
from rookery.policies.stages.standard import standard
from rookery.sim.specs import Group, Term
from rookery.sim2real.build import describe
from rookery.sim2real.compatibility import with_stages
from rookery.sim2real.export.c import c_source, policy_arrays
from rookery.sim2real.export.golden_c import golden_header
from tests.sim2real.test_c_header import ACTIONS

MAIN = """
#include <stdio.h>
#include "golden.h"

int main(void)
{
    printf("%.9g", (double)driver_golden_error());
    return 0;
}
"""


def error_of(policy: Policy, kind: str, folder: Path) -> float:
    """What the compiled program says of the network."""
    contract = describe("some-task", {"driver": Group(1, (Term("o", 6),), ACTIONS[kind])}, 0.1)
    contract = with_stages(contract, {"driver": policy})
    source, header = c_source(contract, "driver", policy_arrays(policy), "driver", "driver.h")[:2]
    texts = {
        "driver.c": source,
        "driver.h": header,
        "golden.h": golden_header(policy, "driver", "driver.h"),
        "main.c": MAIN,
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    files = [str(folder / name) for name in ("driver.c", "main.c")]
    strict = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function"]
    subprocess.run(["gcc", *strict, "-O1", "-o", folder / "main", *files, "-lm"], check=True)
    return float(subprocess.run([folder / "main"], capture_output=True, text=True, check=True).stdout)


@pytest.mark.parametrize(("kind", "memory"), [("numbers", 5), ("choice", 0), ("both", 5)])
def test_the_exported_network_answers_as_the_trained_one(kind: str, memory: int, tmp_path: Path) -> None:
    torch.manual_seed(0)
    choose = Choose.of(ACTIONS[kind]) if ACTIONS[kind].choices else None
    policy = Policy(standard(6, ACTIONS[kind].outputs, (4,), memory_size=memory, choose=choose))
    assert error_of(policy, kind, tmp_path) < 1e-5
