"""The evaluation graphs' inputs: seeded, at their usual sizes and at one that is unusual."""

import numpy as np


def _generator(seed):
    return np.random.Generator(np.random.PCG64(seed))


def normal(*shape, seed=1):
    return _generator(seed).standard_normal(shape, dtype=np.float32)


def image(*shape, seed=1):
    return _generator(seed).random(shape, dtype=np.float32)


def tokens(vocabulary, batch, length, padded=0, seed=1):
    """Token ids and a mask that hides the last `padded` of every sequence."""
    ids = _generator(seed).integers(0, vocabulary, (batch, length), dtype=np.int64)
    mask = np.ones((batch, length), np.int64)
    mask[:, length - padded:] = 0
    return {"input_ids": ids, "attention_mask": mask}


# name -> inputs, the usual size first: the benchmarks take that one, with other seeds as well
INPUTS = {
    "mobilenetv2": [lambda seed=1: {"input": normal(1, 3, 224, 224, seed=seed)},
                    lambda: {"input": normal(3, 3, 224, 224, seed=2)}],
    "yolov8n": [lambda seed=1: {"images": image(1, 3, 640, 640, seed=seed)},
                lambda: {"images": image(2, 3, 256, 352, seed=2)}],
    "yolov8n_nms": [lambda seed=1: {"images": image(1, 3, 640, 640, seed=seed)},
                    lambda: {"images": image(1, 3, 320, 416, seed=2)}],
    "swinv2_tiny": [lambda seed=1: {"input": normal(1, 3, 256, 256, seed=seed)}],
    "clip_text": [lambda seed=1: tokens(49408, 1, 77, padded=seed - 1, seed=seed),
                  lambda: tokens(49408, 2, 19, padded=5, seed=2)],
    "distilbert": [lambda seed=1: tokens(30522, 1, 128, padded=seed - 1, seed=seed),
                   lambda: tokens(30522, 2, 37, padded=9, seed=2)],
    "whisper_tiny_encoder": [lambda seed=1: {"input_features": normal(1, 80, 3000, seed=seed)}],
}

WHISPER_LAYERS, WHISPER_HEADS, WHISPER_HEAD_SIZE = 4, 6, 64
WHISPER_PROMPT = (50258, 50259, 50359, 50363)  # start of transcript, English, transcribe, no timestamps


def whisper_prefill(hidden, tokens=WHISPER_PROMPT):
    """Inputs of the decoder's first step: no past, `hidden` f32[1,n,384] from the encoder."""
    inputs = {"input_ids": np.array([tokens], np.int64), "encoder_hidden_states": hidden,
              "use_cache_branch": np.array([False])}
    for layer in range(WHISPER_LAYERS):
        for part, length in (("decoder", 0), ("encoder", hidden.shape[1])):
            for role in ("key", "value"):
                inputs[f"past_key_values.{layer}.{part}.{role}"] = np.zeros(
                    (1, WHISPER_HEADS, length, WHISPER_HEAD_SIZE), hidden.dtype)
    return inputs


def whisper_next(inputs, outputs):
    """Inputs of the step after (inputs, outputs): the likeliest token and the past it leaves.

    The cached side of the `If` gives empty encoder keys and values: the prefill's are kept.
    """
    following = dict(inputs)
    following["input_ids"] = np.array([[outputs["logits"][0, -1].argmax()]], np.int64)
    following["use_cache_branch"] = np.array([True])
    for name, array in outputs.items():
        if name.startswith("present.") and (".decoder." in name or not inputs["use_cache_branch"][0]):
            following[name.replace("present.", "past_key_values.")] = array
    return following
