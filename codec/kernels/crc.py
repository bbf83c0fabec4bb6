# SPDX-License-Identifier: Apache-2.0
"""CRC-32C of a block and its header (`docs/format.md`, section 5).

The processor's instruction takes three clocks for eight bytes but starts one every clock, so blocks
of the usual sizes are summed in four quarters at a time and joined by a table. Where polynomials
can be multiplied, a block is first folded to 64 bytes of the same CRC (Gopal et al., "Fast CRC
Computation for Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009).
"""

import numpy as np

from codec.format import CRC_INIT, CRC_POLYNOMIAL
from codec.kernels.compile import FOLDS_CRC, kernel
from codec.kernels.intrinsics import crc32c_word, fold_crc, load64, view8

U64 = np.uint64


def _shift_table(size):
    """uint32 `(4, 256)`: what `size` zero bytes make of each byte of a CRC state."""
    states = np.uint32(1) << np.arange(32, dtype=np.uint32)
    for _ in range(8 * size):
        states = states >> 1 ^ np.where(states & 1, CRC_POLYNOMIAL, 0).astype(np.uint32)
    byte = np.arange(256, dtype=np.uint32)
    table = np.zeros((4, 256), np.uint32)
    for place in range(4):
        for bit in range(8):
            table[place] ^= np.where(byte >> bit & 1, states[8 * place + bit], 0).astype(np.uint32)
    return table


def _fold_constants(bits):
    """Factors that move the two halves of a 128-bit lane by so many bits, each to its place."""
    factors = []
    for power in (bits + 32, bits - 32):
        # In reflected order, multiplying by x shifts right; the top bit stands for x to the 0.
        remainder = 1 << 31
        for _ in range(power):
            remainder = remainder >> 1 ^ (CRC_POLYNOMIAL if remainder & 1 else 0)
        factors.append(remainder << 1)
    return factors


_fold = fold_crc(_fold_constants(512), _fold_constants(2048))
_BYTE = _shift_table(1)[0]
_SHIFT_256 = _shift_table(256)
_SHIFT_1024 = _shift_table(1024)


@kernel
def crc_header(state, low, high, long):
    """Finish a CRC: add the header's two words (CRC field zero) to the state after the block."""
    state = crc32c_word(state, low)
    if long:
        state = crc32c_word(state, high)
    return state ^ U64(CRC_INIT)


@kernel
def _sum_block(data, size):
    if size == 4096:
        return _quarters(data, 1024, _SHIFT_1024)
    if size == 1024:
        return _quarters(data, 256, _SHIFT_256)
    state = U64(CRC_INIT)
    for i in range(0, size, 8):
        state = crc32c_word(state, load64(data, i))
    return state


@kernel
def _fold_block(data, size):
    if size < 256 or size & 255:
        return _sum_block(data, size)
    state = U64(0)
    for word in _fold(data, size >> 8, U64(CRC_INIT)):
        state = crc32c_word(state, word)
    return state


# crc_block(data, size): CRC state after the first `size` bytes of `data`, a multiple of 64.
crc_block = _fold_block if FOLDS_CRC else _sum_block


@kernel
def _update_words(state, address, size):
    state = U64(state)
    data = view8(address, size)
    for i in range(0, size - 7, 8):
        state = crc32c_word(state, load64(data, i))
    for i in range(size & ~7, size):
        state = state >> U64(8) ^ U64(_BYTE[(state ^ U64(data[i])) & U64(255)])
    return state


@kernel
def _update_folded(state, address, size):
    folded = size & ~255
    if folded:
        words = _fold(view8(address, size), folded >> 8, U64(state))
        state = U64(0)
        for word in words:
            state = crc32c_word(state, word)
    return _update_words(U64(state), address + folded, size - folded)


# crc_update(state, address, size): CRC state after any number of bytes at an address.
crc_update = _update_folded if FOLDS_CRC else _update_words


@kernel
def _quarters(data, quarter, table):
    a, b, c, d = U64(CRC_INIT), U64(0), U64(0), U64(0)
    for i in range(0, quarter, 8):
        a = crc32c_word(a, load64(data, i))
        b = crc32c_word(b, load64(data, i + quarter))
        c = crc32c_word(c, load64(data, i + 2 * quarter))
        d = crc32c_word(d, load64(data, i + 3 * quarter))
    return _shift(_shift(_shift(a, table) ^ b, table) ^ c, table) ^ d


@kernel
def _shift(state, table):
    byte = U64(255)
    return U64(
        table[0, state & byte]
        ^ table[1, (state >> U64(8)) & byte]
        ^ table[2, (state >> U64(16)) & byte]
        ^ table[3, (state >> U64(24)) & byte]
    )
