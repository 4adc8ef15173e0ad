"""What a file is, from its bytes (magika)."""

import json

import numpy as np

from . import GENERATED


class FileTypes:
    """The model's input for a file, and its answer in words."""

    def __init__(self):
        self._config = json.loads((GENERATED / "magika.json").read_text())

    def features(self, data):
        """i32[1, 2048] of a file's bytes: its head, padded right, and its tail, padded left."""
        head_size, tail_size = self._config["beg_size"], self._config["end_size"]
        block, padding = self._config["block_size"], self._config["padding_token"]
        head = data[:block].lstrip()[:head_size]
        tail = data[-block:].rstrip()[-tail_size:]
        numbers = [*head, *[padding] * (head_size - len(head)), *[padding] * (tail_size - len(tail)), *tail]
        return {"bytes": np.array([numbers], np.int32)}

    def answer(self, scores):
        """(label, score) of f32[1, 214]; an unsure answer is 'unknown'."""
        best = int(scores[0].argmax())
        label, score = self._config["target_labels_space"][best], float(scores[0, best])
        sure = self._config["thresholds"].get(label, self._config["medium_confidence_threshold"])
        label = self._config["overwrite_map"].get(label, label)
        return (label if score >= sure else "unknown"), score
