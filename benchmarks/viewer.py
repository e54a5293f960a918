"""The live viewer: how soon it draws, how often poses arrive, how much a page loads, and what it costs a training.

    python benchmarks/viewer.py
    python benchmarks/viewer.py --only first   # or sent, page, stream, training; other rows stay

The first frame is Chromium's, headless and without a GPU: it is open before the command, and opens the address as soon as that
is printed. What arrives is counted by a client that only receives, so that drawing in software takes no time from the
simulation. The cost to a training is that of spans in one training: in turns the viewer's process is halted, runs while nobody
looks, and runs while one client does; the seconds of processor time that it takes to begin are told besides.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from result_file import RESULTS, measured, told, write_result

TASKS = ("drone-hover", "go2-velocity", "panda-lift")
WORLDS = 4
SETTLE_S = 1.0
SPAN_S = 8.0
"""s of a training that are compared, and before them, after the viewer was halted or somebody came."""
STREAM_S = 5.0
"""s for which arriving poses are counted, after as long to warm up."""
PRINTED = re.compile(r"viewer: (http://\S+) ")
"""The address of a page, with its token."""
CASES = {
    **{f"sent {t}": f"{t}: command to meshes sent" for t in TASKS},
    **{f"first {t}": f"{t}: command to first frame in Chromium" for t in TASKS},
    **{f"page {t}": f"{t}: page with meshes" for t in TASKS},
    **{f"stream {t}": f"{t}: stream of poses" for t in TASKS},
    "training unwatched": "drone-hover: time of a training step with the viewer, nobody looks, over that without",
    "training watched": "drone-hover: time of a training step with the viewer, one page looks, over that without",
}
COLUMNS = (
    {"key": "what", "title": "what", "format": ""},
    {"key": "value", "title": "measured", "format": ""},
    {"key": "target", "title": "target", "format": ""},
    {"key": "processor", "title": "processor s", "format": ".1f"},
)
METRICS = {
    "what": f"the classical controller acts, {WORLDS} worlds",
    "value": "command to meshes sent, to first frame: median, until a receiving client has the last mesh, and until Chromium "
    "has drawn them and faded them in, with a software renderer on the processor that simulates; page: script and meshes; "
    "stream: messages with poses a second; training: median over pairs of spans of one training, with the viewer halted or "
    "not",
    "processor": "time of the command's process until then",
}
HOOK = """
const now = () => performance.timeOrigin + performance.now();
window.Worker = class extends Worker {  // the page's socket is in one
  constructor(...a) {
    super(...a);
    this.addEventListener('message', event => {
      if (event.data.messages?.some(m => m.type === 'BatchedMeshesMessage')) window.received = now();
    });
  }
};
const draw = WebGL2RenderingContext.prototype.drawElementsInstanced;
WebGL2RenderingContext.prototype.drawElementsInstanced = function (...a) {
  if (!window.begun) {
    window.begun = true;
    requestAnimationFrame(() => {  // all that the first frame draws is asked for
      const fence = this.fenceSync(this.SYNC_GPU_COMMANDS_COMPLETE, 0);
      this.flush();
      const poll = setInterval(() => {
        if (this.getSyncParameter(fence, this.SYNC_STATUS) !== this.SIGNALED) return;
        if (parseFloat(this.canvas.style.opacity || 1) < 1) return;  // viser fades in a scene with an environment map
        window.drawn = now();
        clearInterval(poll);
      }, 10);
    });
  }
  return draw.apply(this, a);
};
"""
TIMES = (
    "return window.drawn && [performance.timeOrigin + performance.timing.loadEventEnd - performance.timing.navigationStart, "
    "window.received, window.drawn]"
)
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--use-angle=swiftshader", "--enable-unsafe-swiftshader", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--window-size=560,420",
)  # fmt: skip


def play(task: str) -> list[str]:
    """The command that shows a task."""
    words = ["-m", "rookery", "play", task, "--controller", "classical", "--viewer", "--viewer-port", "0"]
    return [sys.executable, *words, "--viewer-worlds", str(WORLDS)]


@contextlib.contextmanager
def started(words: list[str], cwd: Path | None = None) -> Iterator[tuple[subprocess.Popen[str], str, float]]:
    """A command, the address that it prints, and when it began (s since the epoch)."""
    begin = time.time()
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd)
    try:
        assert process.stdout is not None
        for line in process.stdout:
            if found := PRINTED.search(line):
                break
        else:
            raise SystemExit(f"{' '.join(words)} showed no viewer")
        yield process, found[1], begin
    finally:
        process.terminate()
        process.wait()


def processor_s(pid: int) -> float:
    """Processor time of a process so far, s."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def family_s(pid: int) -> float:
    """Processor time so far of a process and of those that it and they have started, s."""
    total = processor_s(pid)
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                total += family_s(int(child))
    return total


def first_frame(task: str, repeats: int) -> dict[str, Any]:
    """Time from the command to the first drawn picture."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in FLAGS:
        options.add_argument(flag)
    service = Service(shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    times, worked, drew = [], [], []
    try:
        browser.set_script_timeout(120)  # the page is busy drawing
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": HOOK})
        for _ in range(repeats + 1):
            browser.get("about:blank")
            before = family_s(service.process.pid)
            with started(play(task)) as (process, address, begin):
                browser.get(address)
                while not (found := browser.execute_script(TIMES)):
                    time.sleep(0.05)
                worked.append(processor_s(process.pid))
                drew.append(family_s(service.process.pid) - before)
            times.append([t / 1e3 - begin for t in found])
        del times[0], worked[0], drew[0]  # a browser's first page takes seconds more, whatever it is
    finally:
        browser.quit()
    loaded, meshes, drawn = (statistics.median(column) for column in zip(*times, strict=True))
    value = f"{drawn:.1f} s (page loaded {loaded:.1f} s, meshes received {meshes:.1f} s)"
    chromium = statistics.median(drew)
    value += f", Chromium's processor time {chromium:.1f} s"
    return {
        "value": value,
        "target": "< 5 s",
        "processor": statistics.median(worked),
        "chromium": drew,
        "seconds": times,
    }


def received(address: str) -> Iterator[tuple[int, set[str]]]:
    """The messages of the viewer at an address, as printed, as a page gets them: bytes, and the types inside."""
    import msgspec
    import viser
    import zstandard
    from viser.infra import _infra  # noqa: F401  (registers message types)
    from websockets.sync.client import connect

    camera = {
        "type": "ViewerCameraMessage", "wxyz": (1.0, 0.0, 0.0, 0.0), "position": (2.0, 2.0, 2.0), "fov": 1.0, "near": 0.01,
        "far": 1000.0, "image_height": 420, "image_width": 560, "look_at": (0.0, 0.0, 0.0), "up_direction": (0.0, 0.0, 1.0),
    }  # fmt: skip
    place = urlsplit(address)
    origin: Any = f"http://{place.netloc}"
    socket_address = f"ws://{place.netloc}/?{place.query}"
    protocol: Any = [f"viser-v{viser.__version__}"]
    with connect(socket_address, origin=origin, subprotocols=protocol, max_size=None, compression=None) as socket:
        socket.send(msgspec.msgpack.encode(camera))
        for data in socket:
            assert isinstance(data, bytes)
            size = int.from_bytes(data[8:16], "little")
            inner = msgspec.msgpack.decode(zstandard.ZstdDecompressor().decompress(data[16 : 16 + size]))
            for message in inner["messages"]:
                if message["type"] == "SetCameraFovMessage" and not message["initial"]:  # has it drawn what it got?
                    socket.send(msgspec.msgpack.encode(camera | {"fov": message["fov"]}))
            yield len(data), {m["type"] for m in inner["messages"]}


def scene(address: str) -> int:
    """Bytes that a page receives until it has all meshes; poses come after them."""
    loaded = 0
    complete = False
    for size, types in received(address):
        complete |= "BatchedMeshesMessage" in types
        if complete and "BatchedMeshesMessage" not in types:
            return loaded
        loaded += size
    raise SystemExit(f"the viewer at {address} sent no meshes")


def sent(task: str, repeats: int) -> dict[str, Any]:
    """Time from the command until its page has all meshes."""
    times, worked = [], []
    for _ in range(repeats):
        with started(play(task)) as (process, address, begin):
            scene(address)
            times.append(time.time() - begin)
            worked.append(processor_s(process.pid))
    value = statistics.median(times)
    return {"value": f"{value:.1f} s", "target": "< 5 s", "processor": statistics.median(worked), "seconds": times}


def page(task: str) -> dict[str, Any]:
    """What a page loads until it is drawn: the document with its scripts, and what the scene is made of."""
    import viser

    document = (Path(viser.__file__).parent / "client" / "build" / "index.html").stat().st_size
    with started(play(task)) as (_, address, _):
        loaded = scene(address)
    sizes = {"document": document, "scene": loaded}
    return {"value": f"{(document + loaded) / 1e6:.2f} MB", "target": "< 10 MB", "processor": None, **sizes}


def stream(task: str, seconds: float) -> dict[str, Any]:
    """How often poses arrive, counted for some seconds after as long to warm up."""
    with started(play(task)) as (_, address, _):
        times = []
        for _, types in received(address):
            times += [time.monotonic()] if "SceneNodeUpdateMessage" in types else []
            if times and times[-1] - times[0] > 2.0 * seconds:
                break
    late = [t for t in times if t - times[0] >= seconds]
    gaps = [b - a for a, b in zip(late[:-1], late[1:], strict=True)]
    rate = len(gaps) / (late[-1] - late[0])
    return {"value": f"{rate:.0f} Hz", "target": "60 Hz", "processor": None, "longest_gap_s": max(gaps)}


def training(kind: str, repeats: int) -> dict[str, Any]:
    """What the viewer costs a training, "watched" or "unwatched"."""
    rates, shares = spans(repeats)
    ratios = [none / this for none, this in zip(rates["none"], rates[kind], strict=True)]
    more = {"ratios": ratios, "without": rates["none"], "with": rates[kind], "processor_share": shares[kind]}
    return {"value": f"{statistics.median(ratios):.3f}", "target": "<= 1.03", "processor": None, **more}


@functools.lru_cache
def spans(repeats: int) -> tuple[dict[str, list[float]], dict[str, list[float]]]:
    """One training with the viewer, whose process is halted, runs while nobody looks and while one client does, in turns.

    Returns:
        samples a second of the training in each span, and the processor time that the viewer took over that of the training.
    """
    kinds = ("none", "unwatched", "watched")
    rates, shares = ({kind: [] for kind in kinds} for _ in range(2))
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        words = [sys.executable, "-m", "rookery", "train", "drone-hover", "--steps", "1000000000", "--out", str(out)]
        with started([*words, "--viewer", "--viewer-port", "0"]) as (process, address, _):
            threading.Thread(target=drain, args=(process,), daemon=True).start()
            viewer = int(Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0])
            next(
                m for m in received(address) if "BatchedMeshesMessage" in m[1]
            )  # it shows the first policy from here on
            print(f"the viewer shows the policy after {processor_s(viewer):.1f} s of processor time", flush=True)
            for _ in range(repeats):
                for kind in kinds:
                    rate, share = span(kind, out / "progress.csv", process.pid, viewer, address)
                    rates[kind].append(rate)
                    shares[kind].append(share)
                    print(f"{kind}: {rate:,.0f} samples/s, processor time of the viewer {share:.4f}", flush=True)
    return rates, shares


def span(kind: str, log: Path, process: int, viewer: int, address: str) -> tuple[float, float]:
    """Samples a second between two lines of a training's log at least SPAN_S apart, and the viewer's processor time over the
    training's."""
    client = subprocess.Popen([sys.executable, __file__, "--look", address]) if kind == "watched" else None
    os.kill(viewer, signal.SIGSTOP if kind == "none" else signal.SIGCONT)
    try:
        time.sleep(SETTLE_S)
        first = new_line(log)
        worked = processor_s(viewer), processor_s(process)
        while (last := new_line(log))[1] - first[1] < SPAN_S:
            pass
        share = (processor_s(viewer) - worked[0]) / (processor_s(process) - worked[1])
    finally:
        os.kill(viewer, signal.SIGCONT)
        if client is not None:
            client.terminate()
            client.wait()
    return (last[0] - first[0]) / (last[1] - first[1]), share


def new_line(log: Path) -> tuple[float, float]:
    """Steps and seconds of the next line that a training's log gets."""
    old = log.read_text().count("\n")
    while (text := log.read_text()).count("\n") == old:
        time.sleep(0.02)
    names, *rows = (line.split(",") for line in text[: text.rindex("\n")].splitlines())
    return float(rows[-1][names.index("steps")]), float(rows[-1][names.index("seconds")])


def drain(process: subprocess.Popen[str]) -> None:
    """Read what a command says, so that it can go on saying it."""
    assert process.stdout is not None
    for _ in process.stdout:
        pass


def look(address: str) -> None:
    """Receive what a viewer sends until it ends."""
    os.nice(19)
    with contextlib.suppress(Exception):
        for _ in received(address):
            pass


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=["sent", "first", "page", "stream", "training"])
    parser.add_argument(
        "--repeats", type=int, default=3, help="commands for a first frame, and spans of a training of each kind"
    )
    parser.add_argument("--tasks", nargs="+", default=TASKS, choices=TASKS)
    parser.add_argument("--seconds", type=float, default=STREAM_S, help="for which arriving poses are counted")
    parser.add_argument("--out", type=Path, default=RESULTS / "viewer.json")
    parser.add_argument("--look", metavar="ADDRESS", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.look:
        look(args.look)
        return
    kinds: dict[str, Callable[[str], dict[str, Any]]] = {
        "sent": lambda task: sent(task, args.repeats),
        "first": lambda task: first_frame(task, args.repeats),
        "page": page,
        "stream": lambda task: stream(task, args.seconds),
        "training": lambda kind: training(kind, args.repeats),
    }

    def figures(case: str) -> dict[str, Any]:
        kind, _, task = case.partition(" ")
        return {"case": case, "what": CASES[case], **kinds[kind](task)}

    rows = {r["case"]: r for r in json.loads(args.out.read_text())["rows"]} if args.out.exists() else {}
    other = {case for case in CASES for task in TASKS if case.endswith(f" {task}") and task not in args.tasks}
    chosen = [case for case in CASES if case.partition(" ")[0] in args.only and case not in other]
    command = f"python benchmarks/viewer.py --repeats {args.repeats}"
    for ordered, start in measured(rows, list(CASES), chosen, figures):
        write_result(args.out, command, start, COLUMNS, ordered, METRICS, **told(ordered))


if __name__ == "__main__":
    main()
