"""Looks at a robot's file before MuJoCo does: what a stranger's file could do to this process is refused here.

MuJoCo reads every file that a robot names, multiplies elements, and makes arrays of the sizes that it is told; a model that
names itself ends the process. So the XML is parsed here first, with everything that it includes: only ordinary files of the
robot's own folders, without entities and circles, of a bounded depth, number of elements and size. What makes more of a file
than it says, such as `replicate`, is tried out in a process with limits.
"""

from __future__ import annotations

import math
import os
import struct
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from rookery.sim.errors import RookeryError
from rookery.sim.limited import run_limited
from rookery.sim.untrusted import Damaged, read_bytes

ROOTS = "ROOKERY_ROBOT_ROOTS"
"""Environment variable: further folders that robots' files may name files of, separated as in PATH."""
XML_BYTES = 16 << 20
"""Largest XML file."""
DEPTH = 200
"""Deepest nesting of elements, and longest chain of a URDF's joints: a chain of bodies nests as deep as it has joints."""
LINKS = 2_000
"""Most links, and most joints, of a URDF: what is done with them takes as long as there are pairs."""
ELEMENTS = 200_000
"""Most elements of a robot, with all files that it includes."""
FILES = 200
"""Most XML files of a robot."""
LARGEST = 1e9
"""Largest size, place, mass and inertia (m, kg, kg m^2)."""
MOST_MADE = 50_000_000
"""Most pixels of a texture, or numbers of a height field."""
PNG = b"\x89PNG\r\n\x1a\n"
"""First bytes of a PNG (PNG specification, third edition, 5.2)."""
SECONDS = 60
MEMORY = 4 << 30
"""Limits of the process in which an unusual model is tried out: s, and bytes."""

MEASURES = {
    "radius", "length", "size", "scale", "xyz", "pos", "fromto", "mass", "diaginertia", "fullinertia", "density", "ixx", "ixy",
    "ixz", "iyy", "iyz", "izz", "armature", "vertex", "elevation",
}  # fmt: skip
MAKERS = {
    "replicate",
    "composite",
    "flexcomp",
    "flex",
    "skin",
    "hfield",
    "model",
    "attach",
    "plugin",
    "extension",
    "size",
}
"""Elements of MJCF by which a short file makes a large model, or runs what is not in it."""


def check(path: Path, text: bytes | None = None) -> ET.Element:
    """The root element of a robot's file, once everything that it names has been looked at.

    Args:
        path: the file.
        text: what it was expanded to, of a xacro file; None for what is in it.

    Raises:
        RookeryError: what is above, or the file is not there or no XML.
    """
    seen = _Reading(path)
    root = seen.parse(path, (), text)
    if root.tag == "robot":
        check_tree(path, root)
    elif root.tag == "mujoco" and seen.unusual:
        _try_out(path)
    return root


class _Reading:
    """One robot with all XML files that it includes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.unusual = False
        self.files = 0
        self.elements = 0

    def parse(self, file: Path, above: tuple[Path, ...], text: bytes | None = None) -> ET.Element:
        """An XML file, and those that it includes.

        Args:
            above: the files through which it was included.
            text: in place of what is in the file.
        """
        place = file.resolve()
        if place in above:
            raise RookeryError(f"{self.path} includes {file.name} in itself: take that line out.")
        self.files += 1
        if self.files > FILES:
            raise RookeryError(f"{self.path} includes more than {FILES} files: make it one file.")
        root = self._read(file, text)
        if root.tag != "mujoco" and not above:
            self._check_numbers(root)
            return root
        folders = {"", *(c.get(k, "") for c in root.iter("compiler") for k in ("meshdir", "texturedir", "assetdir"))}
        for element in root.iter():
            self.unusual |= element.tag in MAKERS
            for key, name in element.attrib.items():
                if key.startswith("file"):
                    for folder in folders:
                        require_inside(self.path, self.path.parent / folder / name)
                        require_inside(self.path, file.parent / folder / name)
            included = element.get("file")
            if element.tag in ("include", "model") and included:
                # `include` starts at the first file's folder, a model at that of the file that names it
                tries = [self.path.parent / included, file.parent / included]
                for inner in {t.resolve(): t for t in tries if t.exists()}.values():
                    self.parse(inner, (*above, place))
        self._check_numbers(root)
        self._check_made(root)
        return root

    def _read(self, file: Path, text: bytes | None) -> ET.Element:
        try:
            text = read_bytes(file, XML_BYTES) if text is None else text
            root = parse(text)
        except FileNotFoundError:
            raise RookeryError(f"there is no file {file}: give the path of a robot's URDF or MJCF file.") from None
        except (OSError, Damaged, ET.ParseError, ValueError, LookupError) as error:
            raise RookeryError(f"{file} cannot be read: {error}. Give a URDF or MJCF file.") from error
        self.elements += sum(1 for _ in root.iter())
        if self.elements > ELEMENTS:
            raise RookeryError(f"{self.path} has more than {ELEMENTS:,} elements: give a simpler model of the robot.")
        return root

    def _check_numbers(self, root: ET.Element) -> None:
        """Sizes and masses with which no arithmetic works."""
        for element in root.iter():
            for key in MEASURES & element.attrib.keys():
                for value in _numbers(element.attrib[key]):
                    if not abs(value) <= LARGEST:
                        raise RookeryError(
                            f"{self.path}: {key} of <{element.tag}> is {value:g}, which no robot has: give m, kg and kg m^2."
                        )

    def _check_made(self, root: ET.Element) -> None:
        """Guards against what a few words make many of."""
        for element in root.iter():
            pixels = math.prod(max(1.0, *_numbers(element.get(k, "1")), 1.0) for k in ("width", "height"))
            heights = math.prod(max(1.0, *_numbers(element.get(k, "1")), 1.0) for k in ("nrow", "ncol"))
            counts = math.prod(max(1.0, abs(v)) for v in _numbers(element.get("count", "1")))
            users = [v for k, text in element.attrib.items() if k.startswith("nuser") for v in _numbers(text)]
            if pixels > MOST_MADE or heights > MOST_MADE or counts > ELEMENTS or max(users, default=0.0) > ELEMENTS:
                raise RookeryError(
                    f"{self.path}: <{element.tag}> makes more than a robot has: give smaller sizes or counts."
                )
        if _replicated(root) > ELEMENTS:
            raise RookeryError(f"{self.path} replicates more than {ELEMENTS:,} elements: give smaller counts.")


def check_picture(path: Path, file: Path, data: bytes) -> None:
    """Refuse a PNG of more pixels than a robot has: a file of a few kB becomes as many GB.

    Args:
        path: the robot's file.
        file: that it names, with its contents `data`.

    Raises:
        RookeryError: naming both.
    """
    if not data.startswith(PNG) or len(data) < len(PNG) + 16:
        return
    width, height = struct.unpack_from(">II", data, len(PNG) + 8)  # IHDR is the first chunk
    if width * height > MOST_MADE:
        raise RookeryError(
            f"{path}: {file.name} has {width} x {height} pixels, more than {MOST_MADE:,}: give a smaller one."
        )


def parse(text: bytes) -> ET.Element:
    """The root of an XML file of bounded depth and number of elements, without entities.

    Raises:
        Damaged, ET.ParseError, ValueError, LookupError: it is none.
    """
    parser = ET.XMLParser(target=_Builder())
    parser.feed(text)
    root = parser.close()
    assert isinstance(root, ET.Element)
    return root


class _Builder(ET.TreeBuilder):
    """Builds elements of a bounded depth and number, and refuses document types, in which entities are declared."""

    def __init__(self) -> None:
        super().__init__()
        self._depth = self._count = 0

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise Damaged("it declares a document type, whose entities are not read")

    def start(self, tag: str, attributes: dict[str, str]) -> ET.Element:  # type: ignore[override]
        self._depth += 1
        self._count += 1
        if self._depth > DEPTH:
            raise Damaged(f"its elements are nested deeper than {DEPTH}")
        if self._count > ELEMENTS:
            raise Damaged(f"it has more than {ELEMENTS:,} elements")
        return super().start(tag, attributes)

    def end(self, tag: str) -> ET.Element:
        self._depth -= 1
        return super().end(tag)


def _numbers(text: str) -> Iterator[float]:
    """The numbers of an attribute; what is none is left to who reads it."""
    for word in text.split():
        try:
            yield float(word)
        except ValueError:
            continue


def _replicated(root: ET.Element) -> float:
    """Elements that there are once every `replicate` is written out."""
    total = 0.0
    stack = [(root, 1.0)]
    while stack:
        element, times = stack.pop()
        total += times
        if element.tag == "replicate":
            times *= max(1.0, *_numbers(element.get("count", "1")), 1.0)
        stack.extend((inner, times) for inner in element)
    return total


def check_tree(path: Path, robot: ET.Element) -> None:
    """The links and joints of a URDF: not too many, no link is moved by two joints, none by itself through others."""
    for kind in ("link", "joint"):
        if len(robot.findall(kind)) > LINKS:
            raise RookeryError(f"{path} has more than {LINKS:,} {kind}s: give a simpler model of the robot.")
    parents: dict[str, str] = {}
    for joint in robot.findall("joint"):
        parent, child = (
            end.get("link", "") if (end := joint.find(which)) is not None else "" for which in ("parent", "child")
        )
        if child and parents.setdefault(child, parent) != parent:
            raise RookeryError(f"{path}: two joints move the link {child!r}: a robot's links are a tree.")
    depth: dict[str, int] = {}
    for link in parents:
        way: dict[str, None] = {}
        at = link
        while at in parents and at not in depth:
            if at in way:
                raise RookeryError(
                    f"{path}: its joints go in a circle through the link {at!r}: a robot's links are a tree."
                )
            way[at] = None
            at = parents[at]
        for joints, passed in enumerate(reversed(way), depth.get(at, 0) + 1):
            depth[passed] = joints
        if depth[link] > DEPTH:
            raise RookeryError(
                f"{path}: {depth[link]} joints lie between the link {link!r} and the root: give a chain of at most {DEPTH}."
            )


def require_inside(path: Path, file: Path) -> None:
    """Refuse a file that a robot's file names and that is there, but not in the robot's own folders: the file's folder and the
    one above it (but not the home folder), the ROS package around them, ROS packages beside it, and those of ROOTS.

    Raises:
        RookeryError: naming both, and the way to allow it.
    """
    place = file.resolve()
    if not place.exists() or any(place.is_relative_to(root) for root in _roots(path)):
        return
    if any((folder / "package.xml").is_file() for folder in place.parents):
        return
    raise RookeryError(
        f"{path} names the file {file}, which is not in the robot's own folder: put it there, or allow its folder by the "
        f"environment variable {ROOTS}={place.parent}."
    )


def _roots(path: Path) -> list[Path]:
    own = path.resolve().parent
    said = [Path(word).resolve() for word in os.environ.get(ROOTS, "").split(os.pathsep) if word]
    packages = [folder for folder in (own, *own.parents) if (folder / "package.xml").is_file()]
    above = own.parent
    try:
        home = Path.home().resolve()
    except RuntimeError:
        home = own
    wide = above == above.parent or home.is_relative_to(above)  # `/`, the home folder or one around it
    return [own, *said, *packages[:1], *([] if wide else [above])]


# The child needs nothing of ours: what it prints is not read, only how it ends.
_TRIAL = """
import mujoco, sys
try:
    mujoco.MjData(mujoco.MjSpec.from_file(sys.argv[1]).compile())
except ValueError as error:  # which is told by who reads it
    sys.exit("allocate memory" in str(error))
"""


def _try_out(path: Path) -> None:
    """Have MuJoCo read and compile a model where it can do no harm."""
    with tempfile.TemporaryDirectory(prefix="rookery-robot-") as folder:
        done = run_limited([sys.executable, "-c", _TRIAL, str(path.resolve())], Path(folder), SECONDS, MEMORY)
    if done.status != 0:
        raise RookeryError(
            f"{path} cannot be read: tried out in a process with {SECONDS} s and {MEMORY >> 30} GiB, {done.reason}. "
            "Give a simpler model of the robot."
        )
