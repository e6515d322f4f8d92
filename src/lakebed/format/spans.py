"""`Spans`: many short texts in one buffer, for code that reads them without a loop per text.

A scan hands over hundreds of thousands of keys and values. As Python objects they cost
a slice each in every layer they pass; as places in a buffer they cost nothing
until a column is made of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakebed.format.columns import Ints

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Spans:
    """Text i is `data[starts[i] : starts[i] + lengths[i]]`."""

    data: bytes
    starts: Ints
    lengths: Ints

    @classmethod
    def of(cls, texts: Sequence[bytes], *, skip: int = 0) -> "Spans":
        """Return the texts, each without its first `skip` bytes."""
        sizes = np.fromiter(map(len, texts), np.int64, len(texts))
        return cls(b"".join(texts), np.cumsum(sizes) - sizes + skip, sizes - skip)

    @classmethod
    def joined(cls, data: bytes, lengths: Ints) -> "Spans":
        """Return texts that lie one after the other."""
        return cls(data, np.cumsum(lengths) - lengths, lengths)

    @classmethod
    def concat(cls, parts: "Sequence[Spans]") -> "Spans":
        """Return the texts of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        sizes = np.array([len(part.data) for part in parts], np.int64)
        shifts = np.cumsum(sizes) - sizes
        return cls(
            b"".join([part.data for part in parts]),
            np.concatenate([part.starts + shift for part, shift in zip(parts, shifts, strict=True)]),
            np.concatenate([part.lengths for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, index: int) -> bytes:
        start = int(self.starts[index])
        return self.data[start : start + int(self.lengths[index])]

    def texts(self) -> list[bytes]:
        """Return every text as an object."""
        data, starts = self.data, self.starts.tolist()
        return [data[a:b] for a, b in zip(starts, (self.starts + self.lengths).tolist(), strict=True)]

    def part(self, skip: Ints | int, lengths: Ints) -> "Spans":
        """Return of each text so many bytes, from `skip` on."""
        return Spans(self.data, self.starts + skip, lengths)

    def fixed(self, width: int) -> Bytes:
        """Return the first `width` bytes of each text, a row each."""
        raw = np.frombuffer(self.data, np.uint8)
        if len(self) > 1:
            steps = np.diff(self.starts)
            step = int(steps[0])
            if step > 0 and (steps == step).all():
                # Texts at equal distances, as rows of one kind have them, are copied as one.
                first = raw[int(self.starts[0]) :]
                rows = np.lib.stride_tricks.as_strided(first, (len(self), width), (step, 1), writeable=False)
                return np.ascontiguousarray(rows)
        gathered: Bytes = raw[self.starts[:, None] + np.arange(width)]
        return gathered

    def strings(self) -> pa.Array:
        """Return the texts, which are UTF-8, as a column.

        Raises:
            pa.ArrowInvalid: they are not.
        """
        offsets = np.zeros(len(self) + 1, np.int32)
        np.cumsum(self.lengths, out=offsets[1:])
        width = int(self.lengths[0]) if len(self) else 0
        if (self.lengths == width).all():
            content = self.fixed(width) if width else np.zeros(0, np.uint8)
            buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(content))]
            return pa.BinaryArray.from_buffers(pa.binary(), len(self), buffers).cast(pa.string())
        # Every second element of an array whose others are what lies between.
        bounds = np.empty(2 * len(self) + 1, np.int64)
        bounds[0:-1:2], bounds[1::2] = self.starts, self.starts + self.lengths
        bounds[-1] = bounds[-2]
        both = pa.LargeBinaryArray.from_buffers(
            pa.large_binary(), 2 * len(self), [None, pa.py_buffer(bounds), pa.py_buffer(self.data)]
        )
        return both.take(pa.array(np.arange(0, 2 * len(self), 2))).cast(pa.string())
