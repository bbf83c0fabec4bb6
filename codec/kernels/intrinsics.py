# SPDX-License-Identifier: Apache-2.0
"""Machine operations that Numba does not offer: unaligned words, byte masks, bit gather, CRC-32C.

None checks a bound: callers stay inside what they own. `gather_bits` and `scatter_bits` are BMI2's
PEXT and PDEP, `crc32c_word` is SSE4.2's CRC32, `look_up_32` is AVX2's PSHUFB; where the processor
lacks them, or `WIREZIP_PORTABLE=1` asks for it, plain loops take their place. The byte masks are
written for vectors of 64 bytes, which LLVM cuts to what the processor has.
"""

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array

from codec.kernels.compile import EXPANDS_BYTES, NATIVE

_I1, _I8, _I32, _I64 = (ir.IntType(bits) for bits in (1, 8, 32, 64))
_BYTES = ir.VectorType(_I8, 64)


def _array_pointer(context, builder, array_type, array, offset):
    data = cgutils.create_struct_proxy(array_type)(context, builder, value=array).data
    return builder.gep(builder.bitcast(data, _I8.as_pointer()), [offset])


def _load_vector(context, builder, array_type, array, offset):
    pointer = _array_pointer(context, builder, array_type, array, offset)
    vector = builder.load(builder.bitcast(pointer, _BYTES.as_pointer()))
    vector.align = 1
    return vector


def _splat(builder, byte):
    undefined = ir.Constant(_BYTES, ir.Undefined)
    first = builder.insert_element(undefined, byte, ir.Constant(_I32, 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(_I32, 64), [0] * 64))


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
def prefetch(typing_context, array, offset):
    """Ask for the cache line that holds byte `offset` of `array`, which need not be within it."""
    signature = types.void(array, types.int64)

    def generate(context, builder, sig, args):
        pointer = _array_pointer(context, builder, sig.args[0], args[0], args[1])
        kind = ir.FunctionType(ir.VoidType(), [pointer.type, _I32, _I32, _I32])
        name = "llvm.prefetch.p0" if pointer.type.is_opaque else "llvm.prefetch.p0i8"
        function = cgutils.get_or_insert_function(builder.module, kind, name)
        # Not to write, to be kept in all caches, as data.
        builder.call(function, [pointer, *(ir.Constant(_I32, n) for n in (0, 3, 1))])
        return context.get_dummy_value()

    return signature, generate


def _make_view(context, builder, array_type, pointer, count):
    view = context.make_array(array_type)(context, builder)
    size = ir.Constant(_I64, array_type.dtype.bitwidth // 8)
    data = builder.bitcast(pointer, view.data.type)
    populate_array(view, data=data, shape=[count], strides=[size], itemsize=size, meminfo=None)
    return view._getvalue()


def _view_of(dtype):
    """Makes arrays of `count` elements on memory at an address; they own nothing."""
    array_type = types.Array(dtype, 1, "C")

    @intrinsic
    def view(typing_context, address, count):
        signature = array_type(types.int64, types.int64)

        def generate(context, builder, sig, args):
            pointer = builder.inttoptr(args[0], _I8.as_pointer())
            return _make_view(context, builder, array_type, pointer, args[1])

        return signature, generate

    return view


def _cast_to(dtype):
    """Reads the bytes of an array as an array of another type."""
    array_type = types.Array(dtype, 1, "C")

    @intrinsic
    def cast(typing_context, array):
        signature = array_type(array)

        def generate(context, builder, sig, args):
            source = cgutils.create_struct_proxy(sig.args[0])(context, builder, value=args[0])
            shift = (dtype.bitwidth // 8).bit_length() - 1
            count = builder.lshr(source.nitems, ir.Constant(_I64, shift))
            return _make_view(context, builder, array_type, source.data, count)

        return signature, generate

    return cast


view8, view16 = _view_of(types.uint8), _view_of(types.uint16)
view32, view_i32, view_i64 = _view_of(types.uint32), _view_of(types.int32), _view_of(types.int64)
cast16, cast32 = _cast_to(types.uint16), _cast_to(types.uint32)


@intrinsic
def count_four(typing_context, array, groups, byte):
    """How often `byte` and the three below it occur in the first `64 * groups` bytes of `array`.

    `groups` is at most 255: counts are kept in bytes, one a lane.
    """
    signature = types.UniTuple(types.int64, 4)(array, types.int64, types.uint8)

    def generate(context, builder, sig, args):
        zero = ir.Constant(_BYTES, [0] * 64)
        wanted = [
            _splat(builder, builder.sub(args[2], ir.Constant(_I8, below))) for below in range(4)
        ]
        lanes = [cgutils.alloca_once_value(builder, zero) for _ in range(4)]
        with cgutils.for_range(builder, args[1]) as loop:
            offset = builder.mul(loop.index, ir.Constant(_I64, 64))
            vector = _load_vector(context, builder, sig.args[0], args[0], offset)
            for lane, symbol in zip(lanes, wanted, strict=True):
                # A comparison that holds is all ones, that is -1.
                same = builder.sext(builder.icmp_unsigned("==", vector, symbol), _BYTES)
                builder.store(builder.sub(builder.load(lane), same), lane)
        wide = ir.VectorType(ir.IntType(16), 64)
        add = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.IntType(16), [wide]),
            "llvm.vector.reduce.add.v64i16",
        )
        sums = [
            builder.zext(builder.call(add, [builder.zext(builder.load(lane), wide)]), _I64)
            for lane in lanes
        ]
        return context.make_tuple(builder, sig.return_type, sums)

    return signature, generate


@intrinsic
def equal_mask(typing_context, array, offset, byte):
    """Bit `i` says whether byte `offset + i` of `array` equals `byte`, for 64 bytes."""
    signature = types.uint64(array, types.int64, types.uint8)

    def generate(context, builder, sig, args):
        vector = _load_vector(context, builder, sig.args[0], args[0], args[1])
        same = builder.icmp_unsigned("==", vector, _splat(builder, args[2]))
        return builder.bitcast(same, _I64)

    return signature, generate


@intrinsic
def above_mask(typing_context, array, offset, byte):
    """Bit `i` says whether byte `offset + i` of `array` is larger than `byte`, for 64 bytes."""
    signature = types.uint64(array, types.int64, types.uint8)

    def generate(context, builder, sig, args):
        vector = _load_vector(context, builder, sig.args[0], args[0], args[1])
        larger = builder.icmp_unsigned(">", vector, _splat(builder, args[2]))
        return builder.bitcast(larger, _I64)

    return signature, generate


@intrinsic
def odd_mask(typing_context, array, offset):
    """Bit `i` is the lowest bit of byte `offset + i` of `array`, for 64 bytes."""
    signature = types.uint64(array, types.int64)

    def generate(context, builder, sig, args):
        vector = _load_vector(context, builder, sig.args[0], args[0], args[1])
        return builder.bitcast(builder.trunc(vector, ir.VectorType(_I1, 64)), _I64)

    return signature, generate


@intrinsic
def store_bits(typing_context, array, offset, bits):
    """Write each bit of a uint64 as a byte of 0 or 1: undoes `odd_mask`."""
    signature = types.void(array, types.int64, types.uint64)

    def generate(context, builder, sig, args):
        spread = builder.zext(builder.bitcast(args[2], ir.VectorType(_I1, 64)), _BYTES)
        pointer = _array_pointer(context, builder, sig.args[0], args[0], args[1])
        store = builder.store(spread, builder.bitcast(pointer, _BYTES.as_pointer()))
        store.align = 1
        return context.get_dummy_value()

    return signature, generate


def _masked_move(name):
    """VPCOMPRESSB or VPEXPANDB on 64 bytes."""

    @intrinsic
    def operation(typing_context, target, target_offset, source, source_offset, mask):
        signature = types.void(target, types.int64, source, types.int64, types.uint64)

        def generate(context, builder, sig, args):
            vector = _load_vector(context, builder, sig.args[2], args[2], args[3])
            bits = ir.VectorType(_I1, 64)
            move = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(_BYTES, [_BYTES, _BYTES, bits]), name
            )
            zeros = ir.Constant(_BYTES, [0] * 64)
            moved = builder.call(move, [vector, zeros, builder.bitcast(args[4], bits)])
            pointer = _array_pointer(context, builder, sig.args[0], args[0], args[1])
            store = builder.store(moved, builder.bitcast(pointer, _BYTES.as_pointer()))
            store.align = 1
            return context.get_dummy_value()

        return signature, generate

    return operation


@intrinsic
def _look_up_32_native(typing_context, table, source, offset, target):
    signature = types.void(table, source, types.int64, target)

    def generate(context, builder, sig, args):
        half, whole = ir.VectorType(_I8, 16), ir.VectorType(_I8, 32)
        zero = ir.Constant(_I64, 0)
        pointer = _array_pointer(context, builder, sig.args[0], args[0], zero)
        row = builder.load(builder.bitcast(pointer, half.as_pointer()))
        row.align = 1
        lanes = ir.Constant(ir.VectorType(_I32, 32), [*range(16), *range(16)])
        rows = builder.shuffle_vector(row, row, lanes)
        pointer = _array_pointer(context, builder, sig.args[1], args[1], args[2])
        index = builder.load(builder.bitcast(pointer, whole.as_pointer()))
        index.align = 1
        shuffle = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(whole, [whole, whole]), "llvm.x86.avx2.pshuf.b"
        )
        pointer = _array_pointer(context, builder, sig.args[3], args[3], args[2])
        store = builder.store(
            builder.call(shuffle, [rows, index]), builder.bitcast(pointer, whole.as_pointer())
        )
        store.align = 1
        return context.get_dummy_value()

    return signature, generate


@njit(nogil=True)
def _look_up_32_portable(table, source, offset, target):
    for i in range(offset, offset + 32):
        target[i] = table[source[i] & np.uint8(15)]


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


def fold_crc(near, far):
    """Makes a fold of a message to 64 bytes of the same CRC, by VPCLMULQDQ.

    Args:
        near, far: what a lane's low and high half are multiplied with to move it by 512 and by
            2,048 bits: reflected remainders of powers of x, a pair each.
    """
    lanes = ir.VectorType(_I64, 8)

    @intrinsic
    def operation(typing_context, data, groups, state):
        """The 64 bytes for `256 * groups` bytes of `data` and a CRC state, as eight uint64."""
        signature = types.UniTuple(types.uint64, 8)(data, types.int64, types.uint64)

        def generate(context, builder, sig, args):
            multiply = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(lanes, [lanes, lanes, _I8]),
                "llvm.x86.pclmulqdq.512",
            )

            def move(vector, constants):
                factor = ir.Constant(lanes, [*constants] * 4)
                low = builder.call(multiply, [vector, factor, ir.Constant(_I8, 0x00)])
                high = builder.call(multiply, [vector, factor, ir.Constant(_I8, 0x11)])
                return builder.xor(low, high)

            def load(offset):
                vector = _load_vector(context, builder, sig.args[0], args[0], offset)
                return builder.bitcast(vector, lanes)

            def at(group, part):
                start = builder.mul(group, ir.Constant(_I64, 256))
                return builder.add(start, ir.Constant(_I64, 64 * part))

            zero = ir.Constant(lanes, [0] * 8)
            first = ir.Constant(_I64, 0)
            parts = [load(at(first, part)) for part in range(4)]
            seed = builder.insert_element(zero, args[2], ir.Constant(_I32, 0))
            parts[0] = builder.xor(parts[0], seed)
            places = [cgutils.alloca_once_value(builder, part) for part in parts]
            rest = builder.sub(args[1], ir.Constant(_I64, 1))
            with cgutils.for_range(builder, rest) as loop:
                group = builder.add(loop.index, ir.Constant(_I64, 1))
                for part, place in enumerate(places):
                    moved = move(builder.load(place), far)
                    builder.store(builder.xor(moved, load(at(group, part))), place)
            folded = builder.load(places[0])
            for place in places[1:]:
                folded = builder.xor(move(folded, near), builder.load(place))
            words = [builder.extract_element(folded, ir.Constant(_I32, lane)) for lane in range(8)]
            return context.make_tuple(builder, sig.return_type, words)

        return signature, generate

    return operation


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
def trailing_zeros(typing_context, x):
    """Number of zeros below the lowest one of a uint64; 64 for 0."""
    signature = types.int64(types.uint64)

    def generate(context, builder, sig, args):
        return builder.cttz(args[0], ir.Constant(_I1, 0))

    return signature, generate


@intrinsic
def leading_zeros(typing_context, x):
    """Number of zeros above the highest one of a uint64; 64 for 0."""
    signature = types.int64(types.uint64)

    def generate(context, builder, sig, args):
        return builder.ctlz(args[0], ir.Constant(_I1, 0))

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
    look_up_32 = _look_up_32_native
else:
    gather_bits = _gather_bits_portable
    scatter_bits = _scatter_bits_portable
    crc32c_word = _crc32c_word_portable
    look_up_32 = _look_up_32_portable

BYTE_MASKS = np.array(
    [sum(0xFF << 8 * i for i in range(8) if byte >> i & 1) for byte in range(256)], np.uint64
)


@njit(nogil=True)
def _compress_64_portable(target, target_offset, source, source_offset, mask):
    for i in range(source_offset, source_offset + 64, 8):
        byte = mask & np.uint64(255)
        mask >>= np.uint64(8)
        store64(target, target_offset, gather_bits(load64(source, i), BYTE_MASKS[byte]))
        target_offset += popcount(byte)


@njit(nogil=True)
def _expand_64_portable(target, target_offset, source, source_offset, mask):
    for i in range(target_offset, target_offset + 64, 8):
        byte = mask & np.uint64(255)
        mask >>= np.uint64(8)
        store64(target, i, scatter_bits(load64(source, source_offset), BYTE_MASKS[byte]))
        source_offset += popcount(byte)


# compress_64: the bytes of 64 that `mask` names, side by side; writes up to 64 bytes.
# expand_64: the next bytes go where `mask` has a 1, zeros elsewhere; reads and writes 64 bytes.
if EXPANDS_BYTES:
    compress_64 = _masked_move("llvm.x86.avx512.mask.compress.v64i8")
    expand_64 = _masked_move("llvm.x86.avx512.mask.expand.v64i8")
else:
    compress_64 = _compress_64_portable
    expand_64 = _expand_64_portable
