"""TorchScript archives as data: the source text of their code, and their modules with attributes and tensors.

The layout is that of torch/csrc/jit/serialization/export_module.cpp: ``data.pkl`` holds the modules, ``constants.pkl`` constant
tensors, ``data/N`` and ``constants/N`` the numbers of tensors, ``code/__torch__/...py`` the text. The pickles are read by an
unpickler that makes nothing but tensors, containers and `ScriptModule`: no class or function of Python or torch is called.
"""

from __future__ import annotations

import io
import math
import pickle
import zipfile
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from rookery.policies.imports.weights import MOST_NUMBERS
from rookery.sim.untrusted import Damaged

MOST_PICKLE = 1 << 20
"""Bytes of data.pkl; weights are not in it."""
MOST_CODE = 1 << 18
"""Bytes of the text of all files."""
STORAGES = {
    "FloatStorage": torch.float32, "DoubleStorage": torch.float64, "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16, "LongStorage": torch.int64, "IntStorage": torch.int32, "BoolStorage": torch.bool,
}  # fmt: skip
LISTS = ("build_intlist", "build_doublelist", "build_boollist", "build_tensorlist")
Unpack = Callable[[str], bytes]
_PYTHON: Any = pickle._Unpickler  # type: ignore[attr-defined]


class ScriptModule:
    """An instance of a class of TorchScript.

    Attributes:
        kind: qualified name of the class, ``__torch__.torch.nn.modules.linear.Linear``.
        values: attributes by name.
    """

    kind = ""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}

    def __setstate__(self, state: object) -> None:
        if not isinstance(state, dict):
            raise Damaged("a module's state is no dict")
        self.values = dict(state)


def is_script(archive: zipfile.ZipFile) -> bool:
    """An archive of torch.jit.save."""
    return any(name.endswith("/constants.pkl") or "/code/" in name for name in archive.namelist())


def read_script(archive: zipfile.ZipFile, unpack: Unpack) -> tuple[ScriptModule, tuple[Any, ...], dict[str, str]]:
    """The outermost module, the constants, and the text of the code by the name of its namespace.

    Args:
        archive: open.
        unpack: gives the bytes of an entry.

    Raises:
        Damaged: it is no such archive, or holds anything but modules, tensors, numbers and text.
    """
    root = archive.namelist()[0].split("/")[0]
    code = {}
    size = 0
    for info in archive.infolist():
        if not (info.filename.startswith(f"{root}/code/") and info.filename.endswith(".py")):
            continue
        size += info.file_size
        if size > MOST_CODE:
            raise Damaged(f"its code has more than {MOST_CODE >> 10} KiB")
        name = info.filename.removeprefix(f"{root}/code/").removesuffix(".py").replace("/", ".")
        try:
            code[name] = unpack(info.filename).decode("utf-8")
        except UnicodeDecodeError as error:
            raise Damaged("its code is no UTF-8 text") from error
    module = _unpickle(archive, unpack, root, "data")
    constants = _unpickle(archive, unpack, root, "constants")
    if not isinstance(module, ScriptModule) or not isinstance(constants, (tuple, list)):
        raise Damaged("its data are no module")
    return module, tuple(constants), code


def _unpickle(archive: zipfile.ZipFile, unpack: Unpack, root: str, name: str) -> Any:
    if f"{root}/{name}.pkl" not in archive.namelist():
        raise Damaged(f"it lacks {name}.pkl")
    if archive.getinfo(f"{root}/{name}.pkl").file_size > MOST_PICKLE:
        raise Damaged(f"its {name}.pkl has more than {MOST_PICKLE >> 20} MiB")
    data = unpack(f"{root}/{name}.pkl")
    try:
        return _Unpickler(io.BytesIO(data), lambda key: unpack(f"{root}/{name}/{key}")).load()
    except Damaged:
        raise
    except Exception as error:  # the pickle's bytes decide what goes wrong
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise Damaged(f"its {name}.pkl is no pickle of modules: {first:.120}") from error


class _Unpickler(_PYTHON):  # type: ignore[misc]
    """Python's own unpickler in Python, whose memo is a dict: that of C takes memory by an index in the file."""

    dispatch: ClassVar[dict[int, Callable[..., None]]] = dict(_PYTHON.dispatch)

    def __init__(self, file: io.BytesIO, storage: Unpack) -> None:
        super().__init__(file)
        self._storage = storage
        self._storages: dict[str, Tensor] = {}
        self._classes: dict[str, type[ScriptModule]] = {}

    def find_class(self, module: str, name: str) -> Any:
        """A stand-in that is made for this file alone, so that nothing a pickle does to it lasts."""
        if module.split(".")[0] == "__torch__":
            kind = f"{module}.{name}"
            return self._classes.setdefault(kind, type("Script", (ScriptModule,), {"kind": kind}))
        if module == "torch" and name in STORAGES:
            return name
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return lambda *given: _tensor(*given)
        if (module, name) == ("collections", "OrderedDict"):
            return lambda *given: {}
        if module == "torch.jit._pickle" and name in LISTS:
            return lambda values: values
        if (module, name) == ("torch.jit._pickle", "restore_type_tag"):
            return lambda value, tag: value
        raise Damaged(f"it holds objects of {module:.60}.{name:.60}")

    def persistent_load(self, pid: Any) -> Tensor:
        """The numbers of tensors: ``("storage", type, key, device, count)``."""
        kind, dtype, key, _, count = pid
        if kind != "storage" or dtype not in STORAGES or not isinstance(key, str) or not isinstance(count, int):
            raise Damaged("a tensor has no storage")
        if key not in self._storages:
            data = self._storage(key)
            size = STORAGES[dtype].itemsize
            if not 0 <= count * size <= len(data):
                raise Damaged("a tensor's storage is shorter than it says")
            whole = torch.frombuffer(bytearray(data[: count * size]), dtype=STORAGES[dtype]) if count else None
            self._storages[key] = torch.zeros(0, dtype=STORAGES[dtype]) if whole is None else whole
        return self._storages[key]

    def load_setitem(self) -> None:
        """Keys are text: hashing anything deeper may take for ever."""
        self._check_keys([self.stack[-2]])
        super().load_setitem()

    def load_setitems(self) -> None:
        self._check_keys(self.stack[::2])
        super().load_setitems()

    def load_dict(self) -> None:
        self._check_keys(self.stack[::2])
        super().load_dict()

    def _check_keys(self, keys: list[Any]) -> None:
        if not all(isinstance(key, (str, int)) for key in keys):
            raise Damaged("a key of a dict is no text")

    def _refuse(self) -> None:
        raise Damaged("it holds sets")

    dispatch[pickle.SETITEM[0]] = load_setitem
    dispatch[pickle.SETITEMS[0]] = load_setitems
    dispatch[pickle.DICT[0]] = load_dict
    for _code in (pickle.EMPTY_SET, pickle.ADDITEMS, pickle.FROZENSET):
        dispatch[_code[0]] = _refuse


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *others: Any) -> Tensor:
    """A tensor of a storage's numbers, within its bounds."""
    numbers = [offset, *size, *stride]
    if not isinstance(storage, Tensor) or len(size) != len(stride) or len(size) > 8:
        raise Damaged("a tensor has no storage or shape")
    if not all(isinstance(n, int) and not isinstance(n, bool) and 0 <= n < 1 << 40 for n in numbers):
        raise Damaged("a tensor's shape is no list of whole numbers")
    count = math.prod(size)
    last = offset + sum((n - 1) * s for n, s in zip(size, stride, strict=True)) if count else offset - 1
    if count > MOST_NUMBERS or last >= len(storage):
        raise Damaged("a tensor reaches beyond its storage")
    return storage.as_strided(tuple(size), tuple(stride), offset)
