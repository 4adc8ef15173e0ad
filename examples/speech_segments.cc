// Finds speech in a recording with the silero-vad model, chunk by chunk, its state fed back.
//
//   example_speech_segments silero_vad.onnx SPEECH.wav [--csv CHUNKS.csv]
//
// Takes 16-bit PCM; several channels are averaged, other rates than 16 kHz are resampled. With
// --csv the probability of every chunk is written.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <parallax/session.h>

using namespace parallax::api;

namespace {

constexpr double kRate = 16000;
constexpr size_t kChunk = 512;   // new samples a step: 32 ms
constexpr size_t kContext = 64;  // samples of the step before that the model sees again
constexpr float kOn = 0.5f, kOff = 0.35f;
constexpr double kMergeGap = 0.1, kShortest = 0.25;  // seconds

struct Wav {
  double rate = 0;
  std::vector<float> samples;  // mono, in [-1, 1)
};

template <class T>
T ReadLittle(const char* p) {
  T v;
  std::memcpy(&v, p, sizeof(T));
  return v;
}

bool ReadWav(const std::string& path, Wav* wav) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (bytes.size() < 12 || bytes.compare(0, 4, "RIFF") != 0 || bytes.compare(8, 4, "WAVE") != 0) {
    return false;
  }
  size_t channels = 0;
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const std::string id = bytes.substr(at, 4);
    // A program that writes to a pipe does not know the size of its data.
    const size_t size =
        std::min<size_t>(ReadLittle<uint32_t>(&bytes[at + 4]), bytes.size() - at - 8);
    const char* body = &bytes[at] + 8;
    if (id == "fmt " && size >= 16) {
      if (ReadLittle<uint16_t>(body) != 1 || ReadLittle<uint16_t>(body + 14) != 16) return false;
      channels = ReadLittle<uint16_t>(body + 2);
      wav->rate = ReadLittle<uint32_t>(body + 4);
    } else if (id == "data" && channels > 0 && wav->rate > 0) {
      const size_t frames = size / (2 * channels);
      for (size_t f = 0; f < frames; ++f) {
        float sum = 0;
        for (size_t c = 0; c < channels; ++c) {
          sum += static_cast<float>(ReadLittle<int16_t>(body + 2 * (f * channels + c)));
        }
        wav->samples.push_back(sum / (32768.0f * static_cast<float>(channels)));
      }
      return true;
    }
    at += 8 + size + size % 2;
  }
  return false;
}

// Windowed-sinc interpolation to kRate, the cut-off at the lower of the two Nyquist frequencies.
std::vector<float> Resample(const Wav& wav) {
  if (wav.rate == kRate) return wav.samples;
  constexpr int kTaps = 16;  // on either side
  const double step = wav.rate / kRate, cutoff = std::min(1.0, 1.0 / step);
  const size_t count = static_cast<size_t>(static_cast<double>(wav.samples.size()) / step);
  std::vector<float> out(count);
  const double reach = kTaps / cutoff;
  for (size_t i = 0; i < count; ++i) {
    const double center = static_cast<double>(i) * step;
    double sum = 0, weights = 0;
    const long first = std::max(0L, static_cast<long>(std::ceil(center - reach)));
    const long last = std::min(static_cast<long>(wav.samples.size()) - 1,
                               static_cast<long>(std::floor(center + reach)));
    for (long k = first; k <= last; ++k) {
      const double t = (static_cast<double>(k) - center) * cutoff;
      const double sinc = t == 0 ? 1 : std::sin(M_PI * t) / (M_PI * t);
      const double w = sinc * (0.5 + 0.5 * std::cos(M_PI * t / kTaps));  // Hann
      sum += w * static_cast<double>(wav.samples[static_cast<size_t>(k)]);
      weights += w;
    }
    out[i] = static_cast<float>(sum / weights);
  }
  return out;
}

struct Segment {
  double begin = 0, end = 0;  // seconds
};

// Starts where the probability reaches kOn, ends where it falls below kOff.
std::vector<Segment> FindSegments(const std::vector<float>& probability) {
  std::vector<Segment> segments;
  bool inside = false;
  const auto seconds = [](size_t chunk) { return static_cast<double>(chunk * kChunk) / kRate; };
  for (size_t i = 0; i <= probability.size(); ++i) {
    const float p = i < probability.size() ? probability[i] : 0.0f;
    if (!inside && p >= kOn) {
      inside = true;
      const bool merge = !segments.empty() && seconds(i) - segments.back().end < kMergeGap;
      if (!merge) segments.push_back({seconds(i), 0});
    } else if (inside && p < kOff) {
      inside = false;
      segments.back().end = seconds(i);
    }
  }
  std::erase_if(segments, [](const Segment& s) { return s.end - s.begin < kShortest; });
  return segments;
}

void PrintTimeline(const std::vector<Segment>& segments, double length) {
  constexpr int kWidth = 64;
  std::string line(kWidth, '.');
  for (const Segment& s : segments) {
    const int first = static_cast<int>(s.begin / length * kWidth);
    const int last = std::min(kWidth - 1, static_cast<int>(s.end / length * kWidth));
    for (int i = first; i <= last; ++i) line[static_cast<size_t>(i)] = '#';
  }
  std::printf("0.0 s [%s] %.1f s\n", line.c_str(), length);
  for (const Segment& s : segments) {
    std::printf("  speech %6.2f s to %6.2f s\n", s.begin, s.end);
  }
  if (segments.empty()) std::printf("  no speech\n");
}

int Fail(const std::string& what) {
  std::fprintf(stderr, "speech_segments: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool csv = argc == 5 && std::string(argv[3]) == "--csv";
  if (argc != 3 && !csv) {
    std::fprintf(stderr,
                 "usage: example_speech_segments silero_vad.onnx SPEECH.wav [--csv FILE]\n");
    return 2;
  }
  Result<Session> session = Session::Load(argv[1], {.threads = 1});
  if (!session.ok()) return Fail(session.error().message);
  Wav wav;
  if (!ReadWav(argv[2], &wav)) return Fail(std::string(argv[2]) + " is not a 16-bit PCM WAV file");
  std::vector<float> samples = Resample(wav);
  const double length = static_cast<double>(samples.size()) / kRate;
  samples.resize((samples.size() + kChunk - 1) / kChunk * kChunk, 0.0f);

  std::array<float, kContext + kChunk> window = {};
  std::vector<float> state(2 * 1 * 128, 0.0f);
  const int64_t rate = static_cast<int64_t>(kRate);
  const std::array<int64_t, 2> window_shape = {1, window.size()};
  const std::array<int64_t, 3> state_shape = {2, 1, 128};
  std::vector<float> probability;
  for (size_t at = 0; at < samples.size(); at += kChunk) {
    std::copy(window.end() - kContext, window.end(), window.begin());
    std::copy_n(&samples[at], kChunk, window.begin() + kContext);
    Result<std::vector<Tensor>> outputs =
        session->Run({{"input", View<float>(window, window_shape)},
                      {"state", View<float>(state, state_shape)},
                      {"sr", View<int64_t>({&rate, 1}, {})}});
    if (!outputs.ok()) return Fail(outputs.error().message);
    probability.push_back((*outputs)[0].values<float>()[0]);
    const std::span<const float> next = (*outputs)[1].values<float>();
    state.assign(next.begin(), next.end());
  }
  if (csv) {
    std::ofstream file(argv[4]);
    file << "chunk,probability\n";
    for (size_t i = 0; i < probability.size(); ++i) {
      char text[64];
      std::snprintf(text, sizeof(text), "%zu,%.9g\n", i, static_cast<double>(probability[i]));
      file << text;
    }
    if (!file.flush()) return Fail(std::string("cannot write ") + argv[4]);
  }
  PrintTimeline(FindSegments(probability), length);
  return 0;
}
