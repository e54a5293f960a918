"""A bundle from a stranger: what in it runs, where, for how long, and what its errors may show."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnx
import pytest
from sampled import slow_but

from rookery.experiments.runs import open_run
from rookery.sim.errors import RookeryError
from rookery.sim.limited import run_limited
from rookery.sim2real.export.bundle import export_bundle
from rookery.sim2real.export.check import check_bundle

CONSTRUCTOR = "#include <stdio.h>\n__attribute__((constructor)) static void begin(void) {{ {} }}\n"
FAMILIES = ("drone-hover", "go2-velocity", "table-push", "volley-hit")
"""One policy of the zoo of each robot."""


def prepend(bundle: Path, code: str) -> None:
    source = bundle / "policy.c"
    source.write_text(code + source.read_text())


def leave(file: Path) -> str:
    """A constructor that makes a file."""
    return CONSTRUCTOR.format(f'FILE *f = fopen("{file}", "w"); if (f) fclose(f);')


def test_a_constructor_does_not_run_unless_asked_for(bundle: Path, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    prepend(bundle, leave(proof))
    with pytest.raises(RookeryError, match=r"policy\.c is not run, .*--run-c"):
        check_bundle(bundle)
    assert not proof.exists()
    assert check_bundle(bundle, run_c=True)["c_max_error"] <= 1e-5
    assert proof.exists(), "otherwise this test proves nothing"


def test_the_header_must_be_generated_too(bundle: Path, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    header = bundle / "policy.h"
    header.write_text(header.read_text() + leave(proof))
    with pytest.raises(RookeryError, match=r"policy\.h is not run"):
        check_bundle(bundle)
    assert not proof.exists()


def test_weights_of_the_c_must_be_those_of_the_onnx(bundle: Path) -> None:
    """In a table of weights any text is C: it is compared with the numbers, and not only the code around it."""
    source = bundle / "policy.c"
    text = source.read_text()
    start = text.index("weight_0")
    digit = next(i for i in range(start + 20, len(text)) if text[i] == "1")
    source.write_text(text[:digit] + "2" + text[digit + 1 :])
    with pytest.raises(RookeryError, match=r"policy\.c is not run"):
        check_bundle(bundle)


@pytest.mark.slow
def test_an_endless_constructor_ends(bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So does what it started: nothing of its session is left."""
    monkeypatch.setattr("rookery.sim2real.export.answers.RUN_S", 1)
    proof = tmp_path / "later"
    body = f'if (system("(sleep 3; touch {proof}) &")) {{ }} for (;;) {{ }}'
    prepend(bundle, "#include <stdlib.h>\n" + CONSTRUCTOR.format(body))
    start = time.monotonic()
    with pytest.raises(RookeryError, match="did not end in time"):
        check_bundle(bundle, run_c=True)
    assert time.monotonic() - start < 60.0
    time.sleep(
        4.0
    )  # it was ended a second or more after its beginning: whatever it had left would have woken up by now
    assert not proof.exists()


@pytest.mark.slow
def test_a_crash_and_a_greedy_program_are_sentences(bundle: Path) -> None:
    text = (bundle / "policy.c").read_text()
    for body in (
        "__builtin_trap();",
        "for (;;) { volatile char *p = malloc(1 << 24); if (!p) abort(); p[0] = 1; }",
    ):
        (bundle / "policy.c").write_text("#include <stdlib.h>\n" + CONSTRUCTOR.format(body) + text)
        with pytest.raises(RookeryError, match=r"policy\.c gave no answers \(it was ended by SIG"):
            check_bundle(bundle, run_c=True)


LINES = ['#include "{}"\n', '#error "{}"\n', '__asm__(".include \\"{}\\"");\n']


@pytest.mark.parametrize("line", slow_but(LINES[:1], LINES))
def test_errors_do_not_quote_files(bundle: Path, tmp_path: Path, line: str) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("hunter2 = correct horse battery staple\n")
    prepend(bundle, line.format(secret))
    with pytest.raises(RookeryError, match="does not compile") as error:
        check_bundle(bundle, run_c=True)
    shown = str(error.value) + repr(error.value.__cause__) + repr(error.value.__context__)
    assert not any(word in shown for word in ("hunter2", "horse", "staple", "secret"))


def test_a_network_that_asks_for_all_memory_is_a_sentence(bundle: Path) -> None:
    """An outer product of 800 kB makes 40 GB."""
    model = onnx.load(bundle / "policy.onnx")
    for name, shape in (("column", (100_000, 1)), ("row", (1, 100_000))):
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(shape, np.float32), name))
    first = model.graph.node[0]
    node = onnx.helper.make_node("MatMul", ["column", "row"], ["huge"])
    least = onnx.helper.make_node("ReduceMin", ["huge"], ["least"], keepdims=0)
    plus = onnx.helper.make_node("Mul", [first.input[0], "least"], ["begin"])
    first.input[0] = "begin"
    for made in (plus, least, node):
        model.graph.node.insert(0, made)
    onnx.save(model, bundle / "policy.onnx")
    with pytest.raises(RookeryError, match=r"policy\.onnx (gave no answers|is not a readable)"):
        check_bundle(bundle)


def test_data_of_other_files_are_refused(bundle: Path) -> None:
    model = onnx.load(bundle / "policy.onnx")
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = onnx.TensorProto.EXTERNAL
    weight.external_data.add(key="location", value="../../etc/passwd")
    (bundle / "policy.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(RookeryError, match="its data are in another file"):
        check_bundle(bundle)


@pytest.mark.parametrize("place", ["g", "graphs"])
def test_operators_with_graphs_of_their_own_are_refused(bundle: Path, place: str) -> None:
    """Whose data the check of the outer graph would not see, and whose loops need not end."""
    model = onnx.load(bundle / "policy.onnx")
    inner = onnx.helper.make_graph([], "inner", [], [])
    attribute = model.graph.node[-1].attribute.add(name="body")
    if place == "g":
        attribute.type = onnx.AttributeProto.GRAPH
        attribute.g.CopyFrom(inner)
    else:
        attribute.type = onnx.AttributeProto.GRAPHS
        attribute.graphs.append(inner)
    (bundle / "policy.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(RookeryError, match="has a graph of its own"):
        check_bundle(bundle)


@pytest.mark.parametrize("place", ["initializer", "attribute", "attributes"])
def test_sparse_arrays_whose_data_may_be_elsewhere_are_refused(bundle: Path, place: str) -> None:
    model = onnx.load(bundle / "policy.onnx")
    values = onnx.TensorProto(name="sparse", data_type=onnx.TensorProto.FLOAT, dims=[1])
    values.data_location = onnx.TensorProto.EXTERNAL
    values.external_data.add(key="location", value="../../etc/passwd")
    indices = onnx.numpy_helper.from_array(np.zeros(1, np.int64), "at")
    sparse = onnx.helper.make_sparse_tensor(values, indices, [3])
    if place == "initializer":
        model.graph.sparse_initializer.append(sparse)
    else:
        attribute = model.graph.node[0].attribute.add(name="sparse_value")
        attribute.type = (
            onnx.AttributeProto.SPARSE_TENSOR if place == "attribute" else onnx.AttributeProto.SPARSE_TENSORS
        )
        if place == "attribute":
            attribute.sparse_tensor.CopyFrom(sparse)
        else:
            attribute.sparse_tensors.append(sparse)
    (bundle / "policy.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(RookeryError, match="it holds sparse arrays"):
        check_bundle(bundle)


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None
from rookery.sim2real.export.check import check_bundle
print(check_bundle(sys.argv[1])["c_max_error"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("task", FAMILIES)
def test_honest_bundles_of_the_zoo_check_without_torch(task: str, tmp_path: Path) -> None:
    folder = export_bundle(*open_run(Path(task)), tmp_path / "bundle")
    command = [sys.executable, "-c", WITHOUT_TORCH, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout) <= 1e-5


def test_limits_hold(tmp_path: Path) -> None:
    python = [sys.executable, "-I", "-S", "-c"]
    assert run_limited([*python, "print('hello')"], tmp_path, 10).output.strip() == "hello"
    assert run_limited([*python, "import time; time.sleep(60)"], tmp_path, 1).status is None
    assert run_limited([*python, "bytearray(1 << 30)"], tmp_path, 10, memory=512 << 20).status == 1
    big = run_limited([*python, "while True: print('x' * 10**6)"], tmp_path, 20)
    assert big.status not in (0, None) and len(big.output) <= 1 << 16, "what it prints has an end too"
    assert run_limited(["no-such-program"], tmp_path, 10).status == 1
