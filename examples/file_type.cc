// Tells what kind of content files hold, with the magika model.
//
//   example_file_type magika.onnx magika.json FILE...
//
// The model sees 1,024 bytes from the beginning and 1,024 from the end, white space stripped, each
// byte as an int32, 256 for padding.
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <parallax/session.h>
#include <nlohmann/json.hpp>

using namespace parallax::api;

namespace {

constexpr size_t kBlock = 4096;  // read from either end
constexpr size_t kSeen = 1024;   // given to the model from either end
constexpr int32_t kPadding = 256;

bool IsSpace(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::array<int32_t, 2 * kSeen> Features(const std::string& begin, const std::string& end) {
  std::array<int32_t, 2 * kSeen> x;
  x.fill(kPadding);
  size_t first = 0;
  while (first < begin.size() && IsSpace(begin[first])) ++first;
  for (size_t i = 0; i < kSeen && first + i < begin.size(); ++i) {
    x[i] = static_cast<unsigned char>(begin[first + i]);
  }
  size_t last = end.size();
  while (last > 0 && IsSpace(end[last - 1])) --last;
  for (size_t i = 0; i < kSeen && i < last; ++i) {
    x[2 * kSeen - 1 - i] = static_cast<unsigned char>(end[last - 1 - i]);
  }
  return x;
}

struct Answer {
  std::string label;
  float score = 0;
};

// The label of the highest score, or the general one where the score does not reach its threshold.
Answer Decide(const nlohmann::json& config, std::span<const float> scores) {
  const size_t best =
      static_cast<size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  Answer a{config["target_labels_space"][best].get<std::string>(), scores[best]};
  const float medium = config.value("medium_confidence_threshold", 0.5f);
  const auto& thresholds = config["thresholds"];
  const float threshold = thresholds.value(a.label, medium);
  const auto& overwrite = config["overwrite_map"];
  const bool text = a.score >= threshold;
  a.label = overwrite.value(a.label, a.label);
  if (!text) a.label = "unknown (" + a.label + "?)";
  return a;
}

bool ReadEnds(const std::string& path, std::string* begin, std::string* end) {
  std::ifstream file(path, std::ios::binary);
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (!file || error) return false;
  begin->resize(std::min<size_t>(size, kBlock));
  file.read(begin->data(), static_cast<std::streamsize>(begin->size()));
  end->resize(begin->size());
  file.seekg(static_cast<std::streamoff>(size - end->size()));
  file.read(end->data(), static_cast<std::streamsize>(end->size()));
  return static_cast<bool>(file);
}

int Fail(const std::string& what) {
  std::fprintf(stderr, "file_type: %s\n", what.c_str());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr, "usage: example_file_type magika.onnx magika.json FILE...\n");
    return 2;
  }
  Result<Session> session = Session::Load(argv[1]);
  if (!session.ok()) return Fail(session.error().message);
  const nlohmann::json config = nlohmann::json::parse(std::ifstream(argv[2]), nullptr, false);
  if (config.is_discarded() || !config.contains("target_labels_space")) {
    return Fail(std::string("cannot read ") + argv[2]);
  }
  for (int i = 3; i < argc; ++i) {
    std::string begin, end;
    if (!ReadEnds(argv[i], &begin, &end)) return Fail(std::string("cannot read ") + argv[i]);
    if (begin.size() < config.value("min_file_size_for_dl", size_t{8})) {
      std::printf("%-48s too short to tell\n", argv[i]);
      continue;
    }
    const std::array<int32_t, 2 * kSeen> x = Features(begin, end);
    const std::array<int64_t, 2> shape = {1, static_cast<int64_t>(x.size())};
    Result<std::vector<Tensor>> outputs =
        session->Run({{session->inputs()[0].name, View<int32_t>(x, shape)}});
    if (!outputs.ok()) return Fail(outputs.error().message);
    const Answer answer = Decide(config, (*outputs)[0].values<float>());
    std::printf("%-48s %-16s %.1f%%\n", argv[i], answer.label.c_str(),
                100.0 * static_cast<double>(answer.score));
  }
  return 0;
}
