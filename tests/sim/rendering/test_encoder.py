"""A video is whole or not there: full disks, encoders that fail, and pictures that never come."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest

from rookery.policies.datasets.video import decode, encode
from rookery.sim.errors import RookeryError
from rookery.sim.rendering import encoder

OUTPUT = ["-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "5"]


def noise(count: int) -> Iterator[np.ndarray]:
    """Pictures that no encoder makes small."""
    rng = np.random.default_rng(0)
    for _ in range(count):
        yield rng.integers(0, 256, (64, 96, 3), dtype=np.uint8)


def script(folder: Path, body: str) -> str:
    """An encoder of our own; its last argument is the file."""
    path = folder / "ffmpeg"
    path.write_text(f"#!{sys.executable}\nimport sys\nout = sys.argv[-1]\n{body}\n")
    path.chmod(0o755)
    return str(path)


def test_pictures_come_back(tmp_path: Path) -> None:
    bright = [np.full((64, 96, 3), 20 * i, np.uint8) for i in range(10)]
    encode(tmp_path / "a.mp4", iter(bright), 25.0, 96, 64)
    back = list(decode(tmp_path / "a.mp4"))
    assert len(back) == 10 and all(abs(float(p.mean()) - 20 * i) < 4.0 for i, p in enumerate(back))
    assert [p.name for p in tmp_path.iterdir()] == ["a.mp4"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("open(out, 'wb').write(b'half'); sys.stdin.buffer.read(); sys.exit(1)", "status 1"),
        (
            "sys.stdin.buffer.read(); print('[mp4] No space left on device', file=sys.stderr); sys.exit(228)",
            "No space left",
        ),
        ("sys.stdin.buffer.read()", "status 0"),  # success, and an empty file
        ("open(out, 'wb').write(b'half'); import os; os.close(0); os.kill(os.getpid(), 9)", "status -9"),
    ],
)
def test_an_encoder_that_fails_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str, words: str
) -> None:
    fake = script(tmp_path, body)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: fake)
    old = tmp_path / "videos" / "a.mp4"
    old.parent.mkdir()
    old.write_bytes(b"the video of yesterday")
    with pytest.raises(RookeryError, match=words):
        encode(old, noise(200), 25.0, 96, 64)
    assert [p.read_bytes() for p in old.parent.iterdir()] == [b"the video of yesterday"]


def test_what_a_killed_process_left_goes_and_what_another_writes_stays(tmp_path: Path) -> None:
    left = tmp_path / ".a.1.partial.mp4"
    fresh = tmp_path / ".a.2.partial.mp4"
    other = tmp_path / ".b.1.partial.mp4"
    for path in (left, fresh, other):
        path.write_bytes(b"half")
        os.utime(path, (0.0, 0.0))
    os.utime(fresh)
    with encoder.completed(tmp_path / "a.mp4") as first:
        os.utime(first, (0.0, 0.0))
        assert not left.exists() and fresh.exists() and other.exists()
        command = "import sys; from pathlib import Path; from rookery.sim.rendering.encoder import completed\n"
        command += "with completed(Path(sys.argv[1])) as p: p.write_bytes(b'theirs')"
        subprocess.run([sys.executable, "-c", command, str(tmp_path / "a.mp4")], check=True)
        assert first.exists() and (tmp_path / "a.mp4").read_bytes() == b"theirs"
        first.write_bytes(b"ours")
    assert (tmp_path / "a.mp4").read_bytes() == b"ours"


@pytest.mark.parametrize("suffix", [".mp4", ".gif"])
def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    """The real encoder, whose files may not pass 64 kB (the signal of that limit ignored, as on a full disk)."""
    real = imageio_ffmpeg.get_ffmpeg_exe()
    limits = "import os, resource, signal; signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    limits += (
        f"resource.setrlimit(resource.RLIMIT_FSIZE, (65536, 65536)); os.execv({real!r}, ['ffmpeg', *sys.argv[1:]])"
    )
    fake = script(tmp_path, limits)
    monkeypatch.setattr(imageio_ffmpeg, "get_ffmpeg_exe", lambda: fake)
    path = tmp_path / "videos" / f"a{suffix}"
    options = OUTPUT if suffix == ".mp4" else ["-c:v", "gif", "-pix_fmt", "pal8"]

    def fill() -> None:
        with encoder.encoding(path, 25.0, 96, 64, options) as write:
            for picture in noise(200):
                write(picture)

    with pytest.raises(RookeryError, match="File too large"):
        fill()
    assert not list(path.parent.iterdir())


def children() -> set[str]:
    """Process numbers of this process's children; other tests of the same worker may have left some that live on."""
    return {child for task in Path("/proc/self/task").iterdir() for child in (task / "children").read_text().split()}


def test_a_renderer_that_fails_leaves_nothing_and_no_process(tmp_path: Path) -> None:
    def failing() -> Iterator[np.ndarray]:
        yield from noise(3)
        raise KeyboardInterrupt

    before = children()
    with pytest.raises(KeyboardInterrupt):
        encode(tmp_path / "a.mp4", failing(), 25.0, 96, 64)
    assert not list(tmp_path.iterdir())
    assert children() <= before


def test_no_pictures_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(RookeryError, match="the encoder failed"):
        encode(tmp_path / "a.mp4", iter(()), 25.0, 96, 64)
    assert not list(tmp_path.iterdir())
