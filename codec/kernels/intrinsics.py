# SPDX-License-Identifier: Apache-2.0
"""Machine operations that Numba does not offer: unaligned words, bit gather and scatter, CRC-32C.

`load*`, `store*` and `copy_*` do no bounds check: callers stay inside what they own. `gather_bits`
and `scatter_bits` are BMI2's PEXT and PDEP, `crc32c_word` is SSE4.2's CRC32; where the processor lacks
them, or `WIREZIP_PORTABLE=1` asks for it, plain loops take their place. (Numba's cache on disk
does not know of that variable: give the portable kernels a `NUMBA_CACHE_DIR` of their own.)
"""

import os

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic

_FEATURES = binding.get_host_cpu_features()
NATIVE = (
    _FEATURES.get("bmi2", False)
    and _FEATURES.get("sse4.2", False)
    and os.environ.get("WIREZIP_PORTABLE") != "1"
)

_I8, _I16, _I64 = ir.IntType(8), ir.IntType(16), ir.IntType(64)


def _array_pointer(context, builder, array_type, array, offset):
    data = cgutils.create_struct_proxy(array_type)(context, builder, value=array).data
    return builder.gep(builder.bitcast(data, _I8.as_pointer()), [offset])


@intrinsic
def load64(typing_context, array, offset):
    """The 8 bytes at byte `offset` of `array` as uint64."""
    signature = types.uint64(array, types.int64)

    def generate(context, builder, sig, args):
        pointer = _array_pointer(context, builder, sig.args[0], args[0], args[1])
        word = builder.load(builder.bitcast(pointer, _I64.as_pointer()))
        word.align = 1
        return word

    return signature, generate


@intrinsic
def store64(typing_context, array, offset, value):
    """Write the 8 bytes of `value` at byte `offset` of `array`."""
    signature = types.void(array, types.int64, types.uint64)

    def generate(context, builder, sig, args):
        pointer = _array_pointer(context, builder, sig.args[0], args[0], args[1])
        store = builder.store(args[2], builder.bitcast(pointer, _I64.as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def store16(typing_context, array, offset, value):
    """Write the low 2 bytes of `value` at byte `offset` of `array`."""
    signature = types.void(array, types.int64, types.uint64)

    def generate(context, builder, sig, args):
        pointer = _array_pointer(context, builder, sig.args[0], args[0], args[1])
        half = builder.trunc(args[2], _I16)
        store = builder.store(half, builder.bitcast(pointer, _I16.as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def copy(typing_context, target, target_offset, source, source_offset, size):
    """Copy `size` bytes between two arrays that do not overlap."""
    signature = types.void(target, types.int64, source, types.int64, types.int64)

    def generate(context, builder, sig, args):
        to = _array_pointer(context, builder, sig.args[0], args[0], args[1])
        origin = _array_pointer(context, builder, sig.args[2], args[2], args[3])
        cgutils.raw_memcpy(builder, to, origin, args[4], 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def copy_in(typing_context, target, target_offset, address, size):
    """Copy `size` bytes from memory at `address` into an array."""
    signature = types.void(target, types.int64, types.int64, types.int64)

    def generate(context, builder, sig, args):
        to = _array_pointer(context, builder, sig.args[0], args[0], args[1])
        origin = builder.inttoptr(args[2], _I8.as_pointer())
        cgutils.raw_memcpy(builder, to, origin, args[3], 1)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def copy_out(typing_context, address, source, source_offset, size):
    """Copy `size` bytes from an array to memory at `address`."""
    signature = types.void(types.int64, source, types.int64, types.int64)

    def generate(context, builder, sig, args):
        to = builder.inttoptr(args[0], _I8.as_pointer())
        origin = _array_pointer(context, builder, sig.args[1], args[1], args[2])
        cgutils.raw_memcpy(builder, to, origin, args[3], 1)
        return context.get_dummy_value()

    return signature, generate


def _binary64(name):
    """An LLVM intrinsic of two 64-bit integers."""

    @intrinsic
    def operation(typing_context, a, b):
        signature = types.uint64(types.uint64, types.uint64)

        def generate(context, builder, sig, args):
            function = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_I64, [_I64] * 2), name
            )
            return builder.call(function, args)

        return signature, generate

    return operation


@intrinsic
def popcount(typing_context, x):
    """Number of ones in a uint64."""
    signature = types.int64(types.uint64)

    def generate(context, builder, sig, args):
        return builder.ctpop(args[0])

    return signature, generate


@intrinsic
def leading_zeros(typing_context, x):
    """Number of zeros above the highest one of a uint64; 64 for 0."""
    signature = types.int64(types.uint64)

    def generate(context, builder, sig, args):
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return signature, generate


@njit(nogil=True)
def _gather_bits_portable(x, mask):
    out = np.uint64(0)
    place = np.uint64(1)
    while mask:
        lowest = mask & (~mask + np.uint64(1))
        if x & lowest:
            out |= place
        place <<= np.uint64(1)
        mask ^= lowest
    return out


@njit(nogil=True)
def _scatter_bits_portable(x, mask):
    out = np.uint64(0)
    while mask:
        lowest = mask & (~mask + np.uint64(1))
        if x & np.uint64(1):
            out |= lowest
        x >>= np.uint64(1)
        mask ^= lowest
    return out


@njit(nogil=True)
def _crc32c_word_portable(crc, word):
    crc ^= word
    for _ in range(8):
        crc = (crc >> np.uint64(8)) ^ np.uint64(_CRC_TABLE[np.int64(crc & np.uint64(255))])
    return crc


def _crc_table():
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, table >> 1 ^ 0x82F63B78, table >> 1).astype(np.uint32)
    return table


_CRC_TABLE = _crc_table()

if NATIVE:
    gather_bits = _binary64("llvm.x86.bmi.pext.64")
    scatter_bits = _binary64("llvm.x86.bmi.pdep.64")
    crc32c_word = _binary64("llvm.x86.sse42.crc32.64.64")
else:
    gather_bits = _gather_bits_portable
    scatter_bits = _scatter_bits_portable
    crc32c_word = _crc32c_word_portable
