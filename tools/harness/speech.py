"""Speech and pauses: making a sound whose truth is known, finding its speech (silero-vad)."""

import io
import subprocess
import wave

import numpy as np

RATE = 16000
STEP, CONTEXT = 512, 64  # samples of a step, and of the step before that the model wants again
STEP_SECONDS = STEP / RATE
ON, OFF = 0.5, 0.35
MIN_PAUSE, MIN_SPEECH = 0.1, 0.25  # seconds
STATE_SHAPE = (2, 1, 128)


def say(text):
    """f32 samples at 16 kHz of espeak-ng saying `text`, silence at its ends cut."""
    done = subprocess.run(["espeak-ng", "-v", "en", "--stdout", text], check=True, capture_output=True)
    with wave.open(io.BytesIO(done.stdout)) as sound:
        # A stream's header states no length: read all there is.
        samples = np.frombuffer(sound.readframes(1 << 30), "<i2").astype(np.float32) / 32768
        rate = sound.getframerate()
    loud = np.nonzero(np.abs(samples) > 0.01)[0]
    samples = samples[loud[0]:loud[-1] + 1]
    # Exact resampling of a band-limited sound: cut the spectrum at the new rate's half.
    length = round(len(samples) * RATE / rate)
    spectrum = np.fft.rfft(samples)[:length // 2 + 1]
    return np.fft.irfft(spectrum, length).astype(np.float32) * np.float32(length / len(samples))


def conversation(phrases, pauses):
    """The sound of pause, phrase, pause, ... pause, and the (start, end) seconds of each phrase."""
    parts, truth, at = [], [], 0
    for index, pause in enumerate(pauses):
        parts.append(np.zeros(round(pause * RATE), np.float32))
        at += len(parts[-1])
        if index < len(phrases):
            parts.append(say(phrases[index]))
            truth.append((at / RATE, (at + len(parts[-1])) / RATE))
            at += len(parts[-1])
    return np.concatenate(parts), truth


def steps(sound):
    """The model's inputs f32[1, 576], step after step: 64 samples of the past, 512 new."""
    count = -(-len(sound) // STEP)
    padded = np.pad(sound, (CONTEXT, count * STEP - len(sound)))
    for index in range(count):
        yield padded[None, index * STEP:index * STEP + CONTEXT + STEP]


def first_state():
    return np.zeros(STATE_SHAPE, np.float32)


def listen(run, sound):
    """Probabilities f32[steps, 1, 1] and states f32[steps, 2, 1, 128], the state fed back.

    `run` takes the model's inputs and gives its outputs, both by name.
    """
    state, probabilities, states = first_state(), [], []
    for step in steps(sound):
        outputs = run({"input": step, "state": state, "sr": np.array(RATE, np.int64)})
        state = outputs["stateN"]
        probabilities.append(outputs["output"])
        states.append(state)
    return np.stack(probabilities), np.stack(states)


def segments(probabilities):
    """(start, end) in seconds where there is speech."""
    found, start = [], None
    for index, probability in enumerate(probabilities.ravel()):
        if start is None and probability >= ON:
            start = index
        elif start is not None and probability < OFF:
            found.append([start * STEP_SECONDS, index * STEP_SECONDS])
            start = None
    if start is not None:
        found.append([start * STEP_SECONDS, probabilities.size * STEP_SECONDS])
    merged = []
    for segment in found:
        if merged and segment[0] - merged[-1][1] < MIN_PAUSE:
            merged[-1][1] = segment[1]
        else:
            merged.append(segment)
    return [tuple(s) for s in merged if s[1] - s[0] >= MIN_SPEECH]
