"""Robots' files that would harm who reads them end in a sentence, soon."""

from __future__ import annotations

import os
import struct
import time
import zlib
from pathlib import Path
from xml.etree import ElementTree

import pytest
from sampled import slow_but

from rookery.robots.own import guard
from rookery.robots.own.reading import read
from rookery.sim.errors import RookeryError

BALL = '<geom size=".1" mass="1"/>'
BODY = f'<body name="ball">{BALL}</body>'


def mjcf(inside: str = "", world: str = "") -> str:
    return f"<mujoco>{inside}<worldbody>{BODY}{world}</worldbody></mujoco>"


def link(name: str) -> str:
    inertial = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'
    return f'<link name="{name}">{inertial}</link>'


def joint(parent: str, child: str, kind: str = "fixed") -> str:
    return f'<joint name="{parent}{child}" type="{kind}"><parent link="{parent}"/><child link="{child}"/></joint>'


def urdf(*parts: str) -> str:
    return f'<robot name="r">{"".join(parts)}</robot>'


def chain(n: int) -> str:
    """Links of which each hangs on the one before."""
    return urdf(*(link(f"l{i}") for i in range(n)), *(joint(f"l{i}", f"l{i + 1}") for i in reversed(range(n - 1))))


def frames(n: int) -> str:
    """An SDF whose rotor is placed through n frames."""
    placed = "".join(f'<frame name="f{i}"><pose relative_to="f{i + 1}">0 0 1 0 0 0</pose></frame>' for i in range(n))
    rotor = '<link name="rotor"><pose relative_to="f0"/></link><joint name="j"><parent>b</parent><child>rotor</child></joint>'
    return f'<sdf><model name="m"><link name="b"/>{rotor}{placed}<frame name="f{n}"/></model></sdf>'


def deep(n: int) -> str:
    return "<mujoco><worldbody>" + f"<body>{BALL}" * n + "</body>" * n + "</worldbody></mujoco>"


ENTITIES = '<!DOCTYPE r [<!ENTITY a "aaaaaaaaaa">' + "".join(
    f'<!ENTITY {chr(98 + i)} "{f"&{chr(97 + i)};" * 10}">' for i in range(9)
)  # fmt: skip

ATTACKS: dict[str, tuple[str, str]] = {
    "entities.xml": (ENTITIES + "]><mujoco model='&j;'/>", "declares a document type"),
    "entities.urdf": (ENTITIES + "]><robot name='&j;'/>", "declares a document type"),
    "external.xml": ("<!DOCTYPE r SYSTEM 'file:///etc/passwd'><mujoco/>", "declares a document type"),
    "circle.urdf": (
        urdf(*map(link, "abcd"), joint("b", "c"), joint("c", "d"), joint("d", "b")), "its joints go in a circle"
    ),
    "itself.urdf": (urdf(link("a"), link("b"), joint("b", "b")), "its joints go in a circle"),
    "two_parents.urdf": (
        urdf(*map(link, "abc"), joint("a", "c"), joint("b", "c")), "two joints move the link 'c'"
    ),
    "chain.urdf": (chain(300), "299 joints lie between the link 'l299' and the root"),
    "crowd.urdf": (urdf(*(link(f"l{i}") for i in range(2_001))), "more than 2,000 links"),
    "frames.sdf": (frames(5_000), "places 'rotor' through more than 200 frames"),
    "deep.xml": (deep(100_000), "nested deeper than 200"),
    "deep.urdf": ("<robot>" + "<a>" * 100_000 + "</a>" * 100_000 + "</robot>", "nested deeper than 200"),
    "many.xml": (mjcf(world=BALL * 300_000), "more than 200,000 elements"),
    "long.xml": (mjcf(inside=f"<!--{'x' * (17 << 20)}-->"), "more than 16 MiB"),
    "model_itself.xml": (mjcf('<asset><model name="m" file="model_itself.xml"/></asset>'), "model_itself.xml in itself"),
    "include_itself.xml": (mjcf('<include file="include_itself.xml"/>'), "includes include_itself.xml in itself"),
    "include_pipe.xml": (mjcf('<include file="pipe"/>'), "no ordinary file"),
    "include_device.xml": (mjcf('<include file="/dev/zero"/>'), "not in the robot's own folder"),
    "include_outside.xml": (mjcf('<include file="../../outside/secret.xml"/>'), "not in the robot's own folder"),
    "link_outside.xml": (mjcf('<include file="link.xml"/>'), "not in the robot's own folder"),
    "mesh_outside.xml": (
        mjcf('<compiler meshdir="../../outside"/><asset><mesh name="m" file="secret.obj"/></asset>'), "not in the robot's own",
    ),
    "mesh_outside.urdf": (
        urdf('<link name="a"><visual><geometry><mesh filename="../../outside/secret.obj"/></geometry></visual></link>'),
        "not in the robot's own",
    ),
    "package_outside.urdf": (
        urdf('<link name="a"><visual><geometry><mesh filename="package://p/outside/secret.obj"/></geometry></visual></link>'),
        "not in the robot's own",
    ),
    "texture.xml": (
        mjcf('<asset><texture name="t" type="2d" builtin="flat" width="60000" height="60000"/></asset>'), "makes more than",
    ),
    "heights.xml": (mjcf('<asset><hfield name="h" nrow="60000" ncol="60000" size="1 1 1 1"/></asset>'), "makes more than"),
    "flex.xml": (
        mjcf(world='<flexcomp name="f" type="grid" count="900 900 900" spacing=".1 .1 .1"/>'), "makes more than"
    ),
    "user.xml": (mjcf('<size nuser_geom="2000000000"/>'), "makes more than"),
    "arena.xml": (mjcf('<size memory="900G"/>'), "tried out in a process"),
    "replicate.xml": (
        mjcf(world='<replicate count="3000"><replicate count="3000"><geom size="1"/></replicate></replicate>'), "replicates"
    ),
    "large.urdf": (
        urdf('<link name="a"><collision><geometry><sphere radius="1e308"/></geometry></collision></link>'), "radius",
    ),
    "nan.xml": (mjcf(world='<geom size="nan"/>'), "size of <geom> is nan"),
    "coding.xml": ('<?xml version="1.0" encoding="klingon"?><mujoco/>', "cannot be read"),
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A robot's folder with a pipe and a link out of it, and a stranger's secret two folders above."""
    place = tmp_path / "robots" / "mine"
    place.mkdir(parents=True)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.xml").write_text(mjcf())
    (outside / "secret.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 2 4\nf 1 3 4\nf 2 3 4\n")
    (place / "link.xml").symlink_to(outside / "secret.xml")
    os.mkfifo(place / "pipe")
    return place


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_attack_is_a_sentence(attack, folder):
    text, words = ATTACKS[attack]
    (folder / attack).write_text(text)
    before = time.process_time()
    with pytest.raises(RookeryError, match=words) as told:
        read(folder / attack, floating=True)
    assert time.process_time() - before < 2.0
    assert "\n" not in str(told.value)


def test_what_multiplies_is_tried_out_first(folder, monkeypatch):
    """Within the limits it is read; beyond them it is refused, whatever it does to the process."""
    file = folder / "robot.xml"
    file.write_text(f'<mujoco><worldbody><body name="ball">{BALL}<replicate count="3" offset="1 0 0">{BALL}</replicate></body>'
                    "</worldbody></mujoco>")  # fmt: skip
    assert len(read(file, floating=True).spec.geoms) == 4
    monkeypatch.setattr(guard, "_TRIAL", "import os\nos.abort()\n")
    with pytest.raises(RookeryError, match="tried out in a process with 60 s and 4 GiB, it was ended by SIGABRT"):
        read(file, floating=True)
    monkeypatch.setattr(guard, "SECONDS", 1)
    monkeypatch.setattr(guard, "_TRIAL", "import time\ntime.sleep(60)\n")
    with pytest.raises(RookeryError, match="it did not end in time"):
        read(file, floating=True)


def test_elements_are_counted_as_often_as_they_are_written_out(folder):
    root = ElementTree.fromstring(
        '<a><b/><replicate count="3"><c/><replicate count="4"><d/><d/></replicate></replicate><replicate count="x"/></a>'
    )
    # a, b and three replicates, of which the inner one is there 3 times; c 3 times, each d 12 times
    assert guard._replicated(root) == 1 + 1 + 1 + 3 + 3 + 24 + 1


def test_folders_that_may_be_named(folder, monkeypatch):
    """The one above, ROS packages, and those that the user names."""
    outside = folder.parents[1] / "outside"
    file = folder / "include_outside.xml"
    file.write_text(ATTACKS["include_outside.xml"][0])
    for allow in (
        lambda: monkeypatch.setenv(guard.ROOTS, os.pathsep.join(["/nowhere", str(outside)])),
        lambda: (outside / "package.xml").touch(),
    ):
        with pytest.raises(RookeryError, match="own folder"):
            guard.check(file)
        allow()
        guard.check(file)
        monkeypatch.delenv(guard.ROOTS, raising=False)
    (folder.parent / "meshes").mkdir()
    guard.require_inside(file, folder.parent / "meshes")
    monkeypatch.setenv("HOME", str(folder.parent))
    with pytest.raises(RookeryError, match="own folder"):
        guard.require_inside(file, folder.parent / "meshes")


def png(width: int, height: int) -> bytes:
    """A black picture of bits, whose rows compress to nothing."""

    def part(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    rows = zlib.compress(bytes((1 + -(-width // 8)) * height), 9)
    return guard.PNG + part(b"IHDR", head) + part(b"IDAT", rows) + part(b"IEND", b"")


PICTURES = ("texture type='2d'", "hfield size='1 1 1 1'")


@pytest.mark.parametrize("asset", slow_but(PICTURES[:1], PICTURES))
def test_a_picture_that_unpacks_to_gigabytes_is_a_sentence(folder, asset):
    file = folder / "robot.xml"
    file.write_text(mjcf(f"<asset><{asset} name='a' file='a.png'/></asset>"))
    (folder / "a.png").write_bytes(png(16, 8))
    assert read(file, floating=True).spec.assets
    (folder / "a.png").write_bytes(png(8000, 8000))
    assert (folder / "a.png").stat().st_size < 20_000
    with pytest.raises(RookeryError, match=r"robot\.xml: a\.png has 8000 x 8000 pixels, more than 50,000,000"):
        read(file, floating=True)


def test_a_long_chain_of_frames_is_a_place(folder):
    from rookery.robots.own.sdf import to_urdf

    file = folder / "long.sdf"
    file.write_text(frames(199))
    robot, _ = to_urdf(file, guard.check(file))
    (at,) = (j.find("origin") for j in robot.findall("joint"))
    assert at is not None and at.get("xyz") == "0.0 0.0 199.0"


def test_a_long_chain_and_many_shapes_are_robots(folder):
    file = folder / "snake.xml"
    file.write_text(deep(150))
    assert len(read(file, floating=True).spec.bodies) == 151
    file = folder / "snake.urdf"
    file.write_text(chain(200))
    assert read(file, floating=True).spec.body("l199") is not None
