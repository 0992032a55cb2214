"""What a process that calls functions does with each call: the block in, the function, what it made out.

The block is read where it lies, in memory that may only be read. What the function gives is copied once, into the memory
for it; a column that it has left alone is not copied at all.
"""

import ctypes
import mmap
import os
import pickle
import traceback
import weakref
from typing import Any, Dict, List, Optional, Tuple

import cloudpickle
import pyarrow

from paceline.data import _blocks, _functions

_LARGEST_EXCEPTION = 1 << 20  # bytes, pickled
_ALIGNMENT = 64
_LARGE_BLOCK = 1 << 20  # behind which memory goes back to the system


class _Lent:
    """What arrays of a block hold: as long as it is there, somebody has one."""

    __slots__ = ("memory", "__weakref__")

    def __init__(self, memory):
        self.memory = memory


class Region:
    """Memory that the other side has, too."""

    def __init__(self, descriptor: int):
        self._descriptor = descriptor
        self._read: Optional[mmap.mmap] = None
        self._written: Optional[mmap.mmap] = None

    def close(self) -> None:
        os.close(self._descriptor)

    def lent(self, size: int) -> Tuple[pyarrow.Buffer, "weakref.ref[_Lent]"]:
        """The first bytes for reading, and whether they are in use."""
        if self._read is None or len(self._read) < size:
            self._read = mmap.mmap(self._descriptor, os.fstat(self._descriptor).st_size, prot=mmap.PROT_READ)
        lent = _Lent(self._read)
        buffer = pyarrow.foreign_buffer(pyarrow.py_buffer(self._read).address, size, base=lent)
        return buffer, weakref.ref(lent)

    def writable(self, size: int) -> memoryview:
        """At least so many bytes."""
        if self._written is None or len(self._written) < size:
            there = os.fstat(self._descriptor).st_size
            if there < size:
                there = max(size, 2 * there)
                os.ftruncate(self._descriptor, there)
            self._written = mmap.mmap(self._descriptor, there)
        return memoryview(self._written)


def serve(connection: Any) -> None:
    """Answers calls until the connection ends."""
    _functions.restore_generators(False)
    functions: Dict[int, Any] = {}
    regions: Dict[int, Region] = {}
    while (message := connection.receive()) is not None:
        body = message.body
        if message.kind == "function":
            functions[body["function"]] = _Code(message.descriptors[0])
        elif message.kind == "region":
            regions[body["region"]] = Region(message.descriptors[0])
        else:
            for gone in body["gone_functions"]:
                functions.pop(gone, None)
            for gone in body["gone_regions"]:
                regions.pop(gone).close()
            kind, answer, data = _answer(functions[body["function"]], body, regions)
            connection.send(kind, answer, data)
            if max(body["input_bytes"], answer.get("output_bytes", 0)) >= _LARGE_BLOCK:
                _release_unused()


def _release_unused() -> None:
    """What a call has needed counts as long as it runs: nothing is kept of it for the next one."""
    pyarrow.default_memory_pool().release_unused()
    if _malloc_trim is not None:
        _malloc_trim(0)


_malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # glibc has it


class _Code:
    """A function that is unpickled when it is called first."""

    def __init__(self, descriptor: int):
        self._descriptor: Optional[int] = descriptor
        self._function: Any = None

    def __call__(self, block: pyarrow.RecordBatch, key: int) -> pyarrow.Table:
        if self._function is None:
            assert self._descriptor is not None
            # Other processes read it at the same time, and share the place to which a file has been read.
            with mmap.mmap(self._descriptor, 0, prot=mmap.PROT_READ) as code:
                self._function = pickle.loads(code)
            os.close(self._descriptor)
            self._descriptor = None
        if hasattr(self._function, "table"):
            return self._function.table(block, key)
        return pyarrow.Table.from_batches([self._function(block, key)])


def _answer(code, call, regions):
    memory, in_use = regions[call["input"]].lent(call["input_bytes"])
    kind, body, data = _called(code, memory, call["key"], regions[call["output"]])
    del memory
    # A function may keep what it got, a generator or a cycle hold it for a while: then nobody is to write there.
    body["keeps_input"] = in_use() is not None
    return kind, body, data


def _called(code, memory, key, output):
    try:
        block = pyarrow.ipc.open_stream(memory).read_next_batch()
        made = code(block, key)
        places, end = _placed(made, block, output)
        return "made", {"rows": made.num_rows, "columns": places, "output_bytes": end}, made.schema.serialize().to_pybytes()
    except BaseException as error:
        text = f"{type(error).__qualname__}: {error}"
        described = "".join(traceback.format_exception(error))
        return "raised", {"text": text, "traceback": described}, _pickled(error)


def _pickled(error):
    try:
        data = cloudpickle.dumps(error)
    except BaseException:  # of the exception's own class
        return b""
    return data if len(data) <= _LARGEST_EXCEPTION else b""


def _placed(made, block, output) -> Tuple[List[Dict[str, Any]], int]:
    """Where each column is, and the end of what was written."""
    untouched: Dict[int, int] = {}  # by the address
    for number, column in enumerate(block.columns):
        if len(column) and (parts := _parts_in_memory(column.type, [column])):
            untouched[parts[0].address] = number
    places: List[Dict[str, Any]] = []
    flat: List[Tuple[int, List[pyarrow.Buffer]]] = []
    streams: List[Tuple[int, int, pyarrow.RecordBatch]] = []
    end = 0
    for name, column in zip(made.schema.names, made.columns):
        parts = _parts_in_memory(column.type, column.chunks)
        number = untouched.get(parts[0].address, -1) if parts else -1
        if number >= 0 and _is_same(block.column(number), column, parts):
            places.append({"input": number})
            continue
        first = -(-end // _ALIGNMENT) * _ALIGNMENT
        if parts is not None:
            places.append({"flat": first})
            flat.append((first, parts))
            end = first + sum(part.size for part in parts)
        else:
            alone = _blocks.joined(pyarrow.table({name: column}))
            counter = pyarrow.MockOutputStream()
            _write_stream(alone, counter)
            places.append({"stream": [first, counter.size()]})
            streams.append((first, counter.size(), alone))
            end = first + counter.size()
    memory = output.writable(end) if end else memoryview(bytearray())
    for place, parts in flat:
        for part in parts:
            memory[place : place + part.size] = memoryview(part).cast("B")
            place += part.size
    for first, size, alone in streams:
        with pyarrow.FixedSizeBufferWriter(pyarrow.py_buffer(memory[first : first + size])) as sink:
            _write_stream(alone, sink)
    return places, end


def _write_stream(batch, sink):
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _parts_in_memory(kind, arrays) -> Optional[List[pyarrow.Buffer]]:
    """Of values of fixed width, also in fixed-size lists, that stand one after the other; None for all else, and nulls."""
    value = kind
    while pyarrow.types.is_fixed_size_list(value):
        value = value.value_type
    if not pyarrow.types.is_primitive(value) or value.bit_width % 8:
        return None
    parts = []
    for array in arrays:
        while array.null_count == 0 and array.type != value:
            array = array.flatten()
        if array.null_count:
            return None
        if len(array):
            width = value.bit_width // 8
            parts.append(array.buffers()[1].slice(array.offset * width, len(array) * width))
    return parts


def _is_same(column, made, parts):
    """Whether what was made is the memory of a block's column."""
    end = parts[0].address
    for part in parts:
        if part.address != end:
            return False
        end += part.size
    return len(column) == len(made) and _layout(column.type) == _layout(made.type)


def _layout(kind):
    """A type without the names in it."""
    if pyarrow.types.is_fixed_size_list(kind):
        return kind.list_size, _layout(kind.value_type)
    return kind
