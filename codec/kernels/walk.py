# SPDX-License-Identifier: Apache-2.0
"""Find the frames of a stream from their headers alone (`docs/format.md`, sections 4 to 10).

A frame ends where its last section ends, and the sizes of its sections follow from the header, from
the bitmap, and, with gaps, from the unary section. Nothing is decoded and no byte past the buffer
is read; a header that makes no sense stops the walk, and the caller says what is wrong with it.
"""

import numpy as np

from codec import format as f
from codec.elements import LAYOUTS
from codec.kernels.compile import kernel
from codec.kernels.intrinsics import load64, popcount, prefetch

# Places in the bytes of one frame by section.
HEADER, BLOCK, EXTRAS, REMAINDERS, LOW_BITS, UNARY, ESCAPES = range(7)
SECTIONS = 7
_NO_FRAME = (-1, 0, 0, 0, 0, 0, 0)

_WIDTH = np.array([LAYOUTS[tag].width_bytes for tag in sorted(LAYOUTS)])
_REMAINDER_BITS = np.array([LAYOUTS[tag].remainder_bits for tag in sorted(LAYOUTS)])
_SYMBOL_BITS = np.array([LAYOUTS[tag].exponent_bits for tag in sorted(LAYOUTS)])
_CODER_LOW_BITS = np.array(f.CODER_LOW_BITS)
_FRAMES_AHEAD = 4
_RAW = int(f.Mode.RAW)
_CODED, _REFERENCE = int(f.Mode.CODED), int(f.Mode.REFERENCE)


@kernel
def walk(stream, start, element, block_bytes, total_bytes, lengths, modes, sections, coders):
    """Walk the frames of `total_bytes` bytes of one element type from `start` on.

    Args:
        stream: uint8 `(n,)`.
        lengths: int32 `(blocks,)`, out: bytes of each frame.
        modes: uint8 `(blocks,)`, out.
        sections: int64 `(4, SECTIONS)`, to which the bytes by mode and section are added.
        coders: int64 `(4,)`, to which the number of coded frames by coder is added.

    Returns:
        The number of frames found, and where the last one ends. Fewer than `blocks` if the frame
        there is not one of the block that is due.
    """
    width = _WIDTH[element]
    at = start
    for i in range(lengths.size):
        done = i * block_bytes
        sizes = frame_sections(stream, at)
        length = _total(sizes)
        if length < 0 or at + length > stream.size:
            return i, at
        # Each header is in memory that nothing has touched, and frames are of about one length.
        ahead = at + _FRAMES_AHEAD * length
        for line in (-64, 0, 64):
            prefetch(stream, ahead + line)
        low = load64(stream, at)
        mode = _field(low, f.MODE_LSB, f.MODE_BITS)
        block = min(block_bytes, total_bytes - done)
        if (
            _field(low, f.ELEMENT_LSB, f.ELEMENT_BITS) != element
            or _field(low, f.LENGTH_LSB, f.LENGTH_BITS) + 1 != block
            or length > block + f.SHORT_HEADER_BYTES
        ):
            return i, at
        if mode >= _CODED and _field(low, f.PHASE_LSB, f.PHASE_BITS) != -done % width:
            return i, at
        if mode == _CODED:
            high = load64(stream, at + 8)
            coders[_field(high, f.CODER_LSB - 64, f.CODER_BITS)] += 1
        lengths[i] = length
        modes[i] = mode
        for section in range(SECTIONS):
            sections[mode, section] += sizes[section]
        at += length
    return lengths.size, at


@kernel
def frame_bytes(buffer, offset):
    """Length of the frame at `offset`, which may reach past the buffer; -1 if it has none.

    It has none if the header is cut, of another version, or promises what no frame has, or if the
    bitmap, or with gaps the unary section, is cut.

    Args:
        buffer: uint8 `(n,)`.
    """
    return _total(frame_sections(buffer, offset))


@kernel
def _total(sizes):
    header, block, extras, remainders, low_bits, unary, escapes = sizes
    return header + block + extras + remainders + low_bits + unary + escapes


@kernel
def frame_sections(buffer, offset):
    """`frame_bytes` by section; the first is -1 if there is no frame."""
    left = buffer.size - offset
    if left < f.SHORT_HEADER_BYTES:
        return _NO_FRAME
    low = load64(buffer, offset)
    mode = _field(low, f.MODE_LSB, f.MODE_BITS)
    element = _field(low, f.ELEMENT_LSB, f.ELEMENT_BITS)
    phase = _field(low, f.PHASE_LSB, f.PHASE_BITS)
    if (
        _field(low, f.VERSION_LSB, f.VERSION_BITS) != f.FORMAT_VERSION
        or element >= _WIDTH.size
        or phase >= _WIDTH[element]
    ):
        return _NO_FRAME
    width = _WIDTH[element]
    block = _field(low, f.LENGTH_LSB, f.LENGTH_BITS) + 1
    if mode < _CODED:
        return f.SHORT_HEADER_BYTES, block if mode == _RAW else width, 0, 0, 0, 0, 0
    if left < f.LONG_HEADER_BYTES:
        return _NO_FRAME
    high = load64(buffer, offset + 8)

    head = min(phase, block)
    values = (block - head) // width
    extras = head + (block - head) % width
    per_beat = f.BEAT_BYTES // width
    stored = np.uint64(0xFFFFFFFFFFFFFFFF)
    if _field(low, f.BITMAP_LSB, f.BITMAP_BITS):
        extras += f.BITMAP_BYTES
        if left < f.LONG_HEADER_BYTES + f.BITMAP_BYTES:
            return _NO_FRAME
        stored = load64(buffer, offset + f.LONG_HEADER_BYTES)
    values = _stored_values(stored, values, per_beat)

    unary = _field(high, f.UNARY_BYTES_LSB - 64, f.UNARY_BYTES_BITS)
    escapes = _field(high, f.ESCAPES_LSB - 64, f.ESCAPES_BITS)
    if mode == _REFERENCE:
        return _reference_sections(buffer, offset, _pad16(extras), unary, escapes, values)

    flags = _field(low, f.PLANE_FLAGS_LSB, f.PLANE_FLAGS_BITS)
    remainder_bits = _REMAINDER_BITS[element] - _field(low, f.SIGN_FLAG_LSB, f.SIGN_FLAG_BITS)
    planes, top_bits = remainder_bits // 8, remainder_bits % 8
    carriers = values - _field(high, f.BARE_ZEROS_LSB - 64, f.BARE_ZEROS_BITS)
    if flags >> planes or carriers < 0:
        return _NO_FRAME
    constant = (flags & 1) + (flags >> 1 & 1) + (flags >> 2)
    # Every record but a partial last one ends on a byte.
    top_bytes = (carriers * top_bits + 7) // 8
    low_bits = 0
    if _SYMBOL_BITS[element]:
        low_bits = _CODER_LOW_BITS[_field(high, f.CODER_LSB - 64, f.CODER_BITS)]
    return (
        f.LONG_HEADER_BYTES,
        0,
        _pad16(extras + constant),
        _pad16(carriers * (planes - constant) + top_bytes),
        _pad16((values * low_bits + 7) // 8),
        unary,
        escapes,
    )


@kernel
def _reference_sections(buffer, offset, extras, unary, escapes, values):
    """`frame_sections` of a frame in reference mode that stores `values` values."""
    low, high = load64(buffer, offset), load64(buffer, offset + 8)
    width = _WIDTH[_field(low, f.ELEMENT_LSB, f.ELEMENT_BITS)]
    shift = _field(low, f.SHIFT_LSB, f.SHIFT_BITS)
    if not _field(low, f.GAPS_LSB, f.GAPS_BITS):
        low_bits = _pad16((values * shift + 7) // 8)
        return f.LONG_HEADER_BYTES, 0, extras, 0, low_bits, unary, escapes * width
    entries = _field(high, f.ENTRIES_LSB - 64, f.ENTRIES_BITS)
    shift += _field(low, f.GAP_SHIFT_LSB, f.GAP_SHIFT_BITS)
    low_bits = _pad16((entries * shift + 7) // 8)
    begin = offset + f.LONG_HEADER_BYTES + extras + low_bits
    if begin + unary > buffer.size:
        return _NO_FRAME
    gap_escapes = _count_escapes(buffer, begin, unary, entries)
    if gap_escapes > escapes:
        return _NO_FRAME
    escape_bytes = f.GAP_ESCAPE_BYTES * gap_escapes + width * (escapes - gap_escapes)
    return f.LONG_HEADER_BYTES, 0, extras, 0, low_bits, unary, escape_bytes


@kernel
def _count_escapes(buffer, begin, size, codes):
    """How many of the first `codes` unary codes stand for an escape."""
    escapes = zeros = 0
    for i in range(8 * size):
        if codes == 0:
            break
        if buffer[begin + (i >> 3)] >> (i & 7) & 1:
            escapes += zeros >= f.REFERENCE_QUOTIENT_ESCAPE
            codes -= 1
            zeros = 0
        else:
            zeros += 1
    return escapes


@kernel
def _stored_values(stored, values, per_beat):
    """How many of `values` the bitmap `stored` names."""
    beats = values // per_beat
    partial = values % per_beat
    if partial and not stored >> np.uint64(beats) & np.uint64(1):
        partial = 0
    if beats < 64:
        stored &= (np.uint64(1) << np.uint64(beats)) - np.uint64(1)
    return per_beat * popcount(stored) + partial


@kernel
def _pad16(size):
    return (size + f.ALIGN_BYTES - 1) // f.ALIGN_BYTES * f.ALIGN_BYTES


@kernel
def _field(word, lsb, bits):
    return np.int64(word >> np.uint64(lsb) & np.uint64((1 << bits) - 1))
