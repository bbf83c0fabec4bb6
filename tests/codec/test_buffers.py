# SPDX-License-Identifier: Apache-2.0
"""What the codec takes as a tensor, what it refuses, and that it never writes to it."""

import array
import mmap
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
import torch

from codec.buffers import buffer_bytes, tensor_bytes
from codec.elements import ElementType
from codec.errors import InvalidInput

VALUES = np.arange(24, dtype=np.float32).reshape(2, 3, 4)


@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        (np.float32, ElementType.FP32),
        (np.float16, ElementType.FP16),
        (ml_dtypes.bfloat16, ElementType.BF16),
        (ml_dtypes.float8_e4m3fn, ElementType.E4M3),
        (ml_dtypes.float8_e5m2, ElementType.E5M2),
        (np.float64, ElementType.RAW),
        (np.int64, ElementType.RAW),
        (np.uint8, ElementType.RAW),
        (np.bool_, ElementType.RAW),
        (np.complex64, ElementType.RAW),
    ],
)
def test_numpy_types(dtype: type, element: ElementType) -> None:
    values = VALUES.astype(dtype)
    data, found = tensor_bytes(values)
    assert (data.tobytes(), found) == (values.tobytes(), element)
    assert data.dtype == np.uint8
    assert data.ndim == 1


@pytest.mark.parametrize(
    "values",
    [
        VALUES.transpose(2, 0, 1),
        VALUES[::-1, ::2, 1:],
        np.broadcast_to(np.float32(3), (5, 4)),
        np.float32(1.5),
        np.array(1.5, np.float32),
        np.empty((0, 7), np.float32),
        np.frombuffer(b"x" + VALUES.tobytes(), np.uint8)[1:].view(np.float32),
        np.asfortranarray(VALUES),
    ],
    ids=["transposed", "strided", "broadcast", "scalar", "0-d", "empty", "misaligned", "fortran"],
)
def test_shapes_and_strides(values: np.ndarray) -> None:
    data, element = tensor_bytes(values)
    assert data.tobytes() == values.tobytes()
    assert element == ElementType.FP32


def test_result_is_a_read_only_view_of_contiguous_memory() -> None:
    values = VALUES.copy()
    data, _ = tensor_bytes(values)
    assert np.shares_memory(data, values)
    assert not data.flags.writeable
    assert values.flags.writeable


@pytest.mark.parametrize(
    ("dtype", "element"),
    [
        (torch.float32, ElementType.FP32),
        (torch.float16, ElementType.FP16),
        (torch.bfloat16, ElementType.BF16),
        (torch.float8_e4m3fn, ElementType.E4M3),
        (torch.float8_e5m2, ElementType.E5M2),
        (torch.float64, ElementType.RAW),
        (torch.int64, ElementType.RAW),
        (torch.bool, ElementType.RAW),
        (torch.complex64, ElementType.RAW),
    ],
)
def test_torch_types(dtype: torch.dtype, element: ElementType) -> None:
    values = torch.from_numpy(VALUES).to(dtype)
    data, found = tensor_bytes(values)
    assert data.tobytes() == values.reshape(-1).view(torch.uint8).numpy().tobytes()
    assert found == element


@pytest.mark.parametrize(
    "values",
    [
        torch.from_numpy(VALUES).permute(2, 0, 1),
        torch.from_numpy(VALUES)[:, ::2, 1:],
        torch.ones(1).expand(4, 5),
        torch.tensor(1.5),
        torch.empty(0, 7),
        torch.nn.Parameter(torch.from_numpy(VALUES.copy())),
        torch.ones(3, requires_grad=True) * 2,
    ],
    ids=["permuted", "strided", "expanded", "0-d", "empty", "parameter", "graph"],
)
def test_torch_shapes_and_strides(values: torch.Tensor) -> None:
    data, element = tensor_bytes(values)
    assert data.tobytes() == values.detach().contiguous().numpy().tobytes()
    assert element == ElementType.FP32


def test_torch_pending_conjugation_is_resolved() -> None:
    values = torch.tensor([1 + 2j, 3 - 4j]).conj()
    assert tensor_bytes(values)[0].tobytes() == values.resolve_conj().numpy().tobytes()


@pytest.mark.parametrize(
    "tensor",
    [torch.empty(2, device="meta"), torch.eye(2).to_sparse()],
    ids=["other device", "sparse"],
)
def test_tensors_without_dense_cpu_memory_are_refused(tensor: torch.Tensor) -> None:
    with pytest.raises(InvalidInput, match="tensor: expected"):
        tensor_bytes(tensor)


def test_plain_buffers_need_a_type() -> None:
    anonymous = mmap.mmap(-1, 8)
    anonymous.write(b"abcdefgh")
    for plain in (b"abcdefgh", bytearray(b"abcdefgh"), memoryview(b"abcdefgh"), anonymous):
        data, element = tensor_bytes(plain, "bf16")
        assert (data.tobytes(), element) == (b"abcdefgh", ElementType.BF16)
        with pytest.raises(InvalidInput, match="or a dtype with it"):
            tensor_bytes(plain)
    assert tensor_bytes(memoryview(b"abcdefgh")[::2], "raw")[0].tobytes() == b"aceg"
    assert tensor_bytes(array.array("f", [1.0]), "fp32")[0].size == 4
    assert tensor_bytes(b"", "bf16")[0].size == 0


def test_integers_may_hold_the_bits_of_another_type() -> None:
    words = np.arange(5, dtype=np.uint16)
    assert tensor_bytes(words, "bf16")[1] == ElementType.BF16
    assert tensor_bytes(torch.arange(5, dtype=torch.int16), "bf16")[1] == ElementType.BF16
    assert tensor_bytes(np.ones(3, "V2"), "bf16")[1] == ElementType.BF16


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (VALUES, "bf16"),
        (np.ones(3), "fp32"),
        (torch.ones(3), "fp16"),
        (torch.ones(3, dtype=torch.bool), "e4m3"),
        (VALUES.astype(">f4"), None),
        (VALUES.astype(">f4"), "fp32"),
        (np.array([object()]), None),
        (np.array([object()]), "raw"),
        (np.array(["text"]), None),
        (np.array([(1, 2.0)], "i4,f4"), None),
        (np.ma.masked_array([1.0], [True]), None),
        ([1.0, 2.0], None),
        ([1.0, 2.0], "fp32"),
        (3.5, "fp32"),
        (None, None),
        ("text", "raw"),
        (b"bytes", "no such type"),
    ],
)
def test_nonsense_is_refused(data: object, dtype: object) -> None:
    with pytest.raises(InvalidInput):
        tensor_bytes(data, dtype)


def test_raw_goes_with_any_numbers() -> None:
    swapped = VALUES.astype(">f4")
    data, element = tensor_bytes(swapped, "raw")
    assert (data.tobytes(), element) == (swapped.tobytes(), ElementType.RAW)
    assert tensor_bytes(VALUES, "raw")[1] == ElementType.RAW


def test_buffer_names_what_it_wanted() -> None:
    with pytest.raises(InvalidInput, match="stream: expected a buffer; found int"):
        buffer_bytes(3, "stream")


def test_codec_does_not_import_torch() -> None:
    program = (
        "import sys, numpy, codec; codec.compress(numpy.ones(9, 'f4'), engine='reference');"
        "sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
