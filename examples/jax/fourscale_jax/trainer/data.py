# SPDX-License-Identifier: Apache-2.0
"""Text as bytes. A batch is a function of seed and step, so that a run resumed reads what it would have read."""

import lzma
import pathlib

import numpy as np

HELD_OUT = 20  # one part of so many, at the end


def generated(size=1 << 18):
    """Sentences of sums: text that is small, free, and takes some learning."""
    ones = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen " \
           "seventeen eighteen nineteen".split()
    tens = "twenty thirty forty fifty sixty seventy eighty ninety".split()

    def words(n):
        return ones[n] if n < 20 else tens[n // 10 - 2] + (f"-{ones[n % 10]}" if n % 10 else "")

    random = np.random.Generator(np.random.Philox(0))
    text, length = [], 0
    while length < size:
        a, b = map(int, random.integers(0, 50, 2))
        low, high = sorted((a, b))
        text.append((f"{words(a).capitalize()} and {words(b)} make {words(a + b)}. ",
                     f"If you take {words(low)} from {words(high)}, {words(high - low)} will be left.\n",
                     f"What is more, {words(a)} or {words(b)}? It is {words(high)}. ")[int(random.integers(3))])
        length += len(text[-1])
    return "".join(text).encode()


def _bytes_of(path):
    if not path:
        return generated()
    try:
        return lzma.open(path).read() if path.endswith(".xz") else pathlib.Path(path).read_bytes()
    except (OSError, EOFError, lzma.LZMAError) as error:
        raise ValueError(f"text cannot be read: {error}") from error


class Text:
    """The bytes of a file, or of what an .xz file holds, or generated ones; the end is held out. ValueError if they are
    too few, or cannot be read."""

    def __init__(self, path, sequence):
        all_of_it = np.frombuffer(_bytes_of(path), np.uint8)
        end = len(all_of_it) - len(all_of_it) // HELD_OUT
        self.training, self.held_out, self.sequence = all_of_it[:end], all_of_it[end:], sequence
        if len(self.held_out) <= sequence:
            raise ValueError(f"{len(all_of_it)} bytes of text are too few for sequences of {sequence}")

    def batch(self, seed, step, count):
        """int32 [count, sequence + 1]: inputs, and targets one further."""
        random = np.random.Generator(np.random.Philox(key=[seed, step]))
        return self._cut(self.training, random.integers(0, len(self.training) - self.sequence, count))

    def validation(self, count):
        """The same of the text held out, evenly spread, in every run."""
        return self._cut(self.held_out, np.linspace(0, len(self.held_out) - self.sequence - 1, count).astype(int))

    def _cut(self, text, starts):
        return text[starts[:, None] + np.arange(self.sequence + 1)].astype(np.int32)
