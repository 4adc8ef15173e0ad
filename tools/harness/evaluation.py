"""The evaluation graphs' inputs: seeded, at their usual sizes and at one that is unusual."""

import numpy as np


def _generator(seed):
    return np.random.Generator(np.random.PCG64(seed))


def _normal(*shape, seed=1):
    return _generator(seed).standard_normal(shape, dtype=np.float32)


def _image(*shape, seed=1):
    return _generator(seed).random(shape, dtype=np.float32)


def _tokens(vocabulary, batch, length, padded=0, seed=1):
    """Token ids and a mask that hides the last `padded` of every sequence."""
    ids = _generator(seed).integers(0, vocabulary, (batch, length), dtype=np.int64)
    mask = np.ones((batch, length), np.int64)
    mask[:, length - padded:] = 0
    return {"input_ids": ids, "attention_mask": mask}


# name -> inputs, the usual size first (the benchmarks take that one)
INPUTS = {
    "mobilenetv2": [lambda: {"input": _normal(1, 3, 224, 224)}, lambda: {"input": _normal(3, 3, 224, 224, seed=2)}],
    "yolov8n": [lambda: {"images": _image(1, 3, 640, 640)}, lambda: {"images": _image(2, 3, 256, 352, seed=2)}],
    "yolov8n_nms": [lambda: {"images": _image(1, 3, 640, 640)}, lambda: {"images": _image(1, 3, 320, 416, seed=2)}],
    "swinv2_tiny": [lambda: {"input": _normal(1, 3, 256, 256)}],
    "clip_text": [lambda: _tokens(49408, 1, 77), lambda: _tokens(49408, 2, 19, padded=5, seed=2)],
    "distilbert": [lambda: _tokens(30522, 1, 128), lambda: _tokens(30522, 2, 37, padded=9, seed=2)],
    "whisper_tiny_encoder": [lambda: {"input_features": _normal(1, 80, 3000)}],
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


def bench_inputs(name):
    """Inputs at the usual size of any evaluation graph."""
    if name == "whisper_tiny_decoder_merged":
        return whisper_prefill(_normal(1, 1500, 384))
    return INPUTS[name][0]()
