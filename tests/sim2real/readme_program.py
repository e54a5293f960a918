"""The program that the README of a bundle shows, completed as a reader would: its state filled, and some control steps run."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np

FLAGS = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"]
STEPS = 3
STATE = """{
    float *all = (float *)&state;
    for (unsigned n = 0; n < sizeof state / sizeof *all; n++) { all[n] = 0.01f * (float)(n + 1u); }
}"""
PRINT = """for (unsigned n = 0; n < sizeof @ / sizeof(float); n++) { printf("%.9g ", (double)((float *)@)[n]); }
printf("\\n");"""


def readme_program(text: str, source: str = "policy.c") -> str:
    """C of a README's only block of calls, which prints the arrays that it fills."""
    (block,) = re.findall(r"```c\n(.*?)```", text, re.S)
    includes = re.findall(r"^#include.*\n", block, re.M)
    body = re.sub(r"^#include.*\n", "", block, flags=re.M)
    body = body.replace("for (;;) {", f"for (int step = 0; step < {STEPS}; step++) {{")
    body, filled = re.subn(r"/\* fill state[^*]*\*/", lambda _: STATE, body)
    assert filled == 1
    arrays = re.findall(r"^static float (\w+)\[", body, re.M)
    prints = "\n".join(PRINT.replace("@", name) for name in arrays)
    return f"#include <stdio.h>\n{''.join(includes)}\nint main(void)\n{{\n{body}\n{prints}\nreturn 0;\n}}\n"


def run_readme(folder: Path, text: str) -> list[np.ndarray]:
    """Compile the program beside a bundle's policy.c, run it, and return the arrays that it fills, `command` first."""
    (folder / "readme.c").write_text(readme_program(text))
    subprocess.run(["gcc", *FLAGS, "-c", "readme.c", "-o", "readme.o"], check=True, cwd=folder)
    subprocess.run(["gcc", "-std=c99", "-O2", "readme.o", "policy.c", "-o", "readme", "-lm"], check=True, cwd=folder)
    done = subprocess.run([folder / "readme"], capture_output=True, text=True, check=True, timeout=10)
    return [np.array([float(x) for x in line.split()]) for line in done.stdout.splitlines()]
