"""COLLADA meshes and xacro files, where the packages that read them are installed; without them a sentence that names them."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import trimesh
from own_files import write_robot

from rookery.robots.own.quadruped import load_quadruped
from rookery.sim.errors import RookeryError

SIZE = (0.34, 0.14, 0.1)  # m, of the template's trunk
DAE = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset><created>2026-01-01T00:00:00</created><modified>2026-01-01T00:00:00</modified><unit name="centimeter" meter="0.01"/>
    <up_axis>Y_UP</up_axis></asset>
  <library_geometries><geometry id="box"><mesh>
    <source id="p"><float_array id="pa" count="{count}">{places}</float_array><technique_common>
      <accessor source="#pa" count="8" stride="3"><param name="X" type="float"/><param name="Y" type="float"/>
      <param name="Z" type="float"/></accessor></technique_common></source>
    <vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
    <triangles count="12"><input semantic="VERTEX" source="#v" offset="0"/><p>{faces}</p></triangles>
  </mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="s"><node id="n"><matrix>1 0 0 2 0 1 0 0 0 0 1 0 0 0 0 1</matrix>
    <instance_geometry url="#box"/></node></visual_scene></library_visual_scenes>
  <scene><instance_visual_scene url="#s"/></scene>
</COLLADA>"""


def dog_with(folder, mesh: str):
    """The template, whose trunk collides and looks as a mesh's file."""
    return write_robot(folder, "quadruped", change=('<box size="0.34 0.14 0.1"/>', f'<mesh filename="{mesh}"/>'))


def test_a_collada_mesh_is_in_its_unit_and_keeps_its_axes(tmp_path):
    """In cm, shifted by 2 cm along x by its scene, beside the same as STL."""
    pytest.importorskip("collada")
    box = trimesh.creation.box(SIZE)
    places = " ".join(f"{100.0 * v:g}" for v in box.vertices.flatten())
    text = DAE.format(count=24, places=places, faces=" ".join(map(str, box.faces.flatten())))
    (tmp_path / "trunk.dae").write_text(text)
    got = load_quadruped(dog_with(tmp_path, "trunk.dae")).model.spec().compile()
    box.apply_translation((0.02, 0.0, 0.0)).export(tmp_path / "trunk.stl")
    expected = load_quadruped(dog_with(tmp_path, "trunk.stl")).model.spec().compile()
    assert got.nmesh == 1
    (one,), (other,) = (np.flatnonzero((m.geom_dataid >= 0) & (m.geom_contype > 0)) for m in (got, expected))
    np.testing.assert_allclose(got.geom_pos[one], expected.geom_pos[other], atol=1e-6)
    np.testing.assert_allclose(got.geom_aabb[one], expected.geom_aabb[other], atol=1e-6)
    np.testing.assert_allclose(2.0 * np.sort(got.geom_aabb[one, 3:]), np.sort(SIZE), atol=1e-5)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", ""),
        (b"<COLLADA/>", ""),
        (b"PK\x03\x04", ""),
        (DAE.encode(), ""),
        (b"<a>" * 9, ""),
        (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "it declares a document type"),
        (b"<a>" * 300, "nested deeper than 200"),
        (b"<a>" + b"<b/>" * 200_000, "more than 200,000 elements"),
    ],
    ids=range(8),
)
def test_a_collada_file_that_is_none(data, words, tmp_path):
    pytest.importorskip("collada")
    (tmp_path / "trunk.dae").write_bytes(data)
    with pytest.raises(RookeryError, match=rf"trunk\.dae cannot be read.*{words}"):
        load_quadruped(dog_with(tmp_path, "trunk.dae"))


def test_xacro_is_expanded(tmp_path):
    pytest.importorskip("xacro")
    file = write_robot(tmp_path, "quadruped", change=('<mass value="4.2"/>', '<mass value="${2.0 * half}"/>'))
    head = '<robot name="my_robot" xmlns:xacro="http://ros.org/wiki/xacro"><xacro:property name="half" value="2.1"/>'
    out = file.with_suffix(".xacro")
    out.write_text(file.read_text().replace('<robot name="my_robot">', head))
    assert load_quadruped(out).model.mass == pytest.approx(8.4)
    out.write_text(out.read_text().replace("2.0 * half", "2.0 * whole"))
    with pytest.raises(RookeryError, match=r"xacro cannot expand .*whole"):
        load_quadruped(out)
    with pytest.raises(RookeryError, match="there is no file"):
        load_quadruped(tmp_path / "none.xacro")


@pytest.mark.parametrize(("package", "suffix"), [("collada", "dae"), ("xacro", "xacro")])
def test_what_is_not_installed_is_named(package, suffix, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    (tmp_path / "trunk.dae").write_text("<COLLADA/>")
    file = dog_with(tmp_path, "trunk.dae")
    if suffix == "xacro":
        file = file.rename(file.with_suffix(".xacro"))
    with pytest.raises(RookeryError, match=f"pip install (py)?{package}"):
        load_quadruped(file)
