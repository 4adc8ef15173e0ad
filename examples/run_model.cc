// Loads a model, feeds zeros, prints the shape of every output: the smallest use of the library.
#include <cstdio>
#include <vector>

#include <parallax/session.h>

using namespace parallax::api;

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: run_model MODEL.onnx\n");
    return 2;
  }
  Result<Session> session = Session::Load(argv[1]);
  if (!session.ok()) {
    std::fprintf(stderr, "run_model: %s\n", session.error().message.c_str());
    return 1;
  }
  std::vector<std::vector<int64_t>> shapes;
  std::vector<std::vector<std::byte>> zeros;
  for (const ValueInfo& info : session->inputs()) {
    size_t bytes = SizeOf(info.type);
    for (int64_t& extent : shapes.emplace_back(info.shape)) {
      if (extent < 0) extent = 1;  // an extent the model leaves open
      bytes *= static_cast<size_t>(extent);
    }
    zeros.emplace_back(bytes);
  }
  std::vector<Input> inputs;
  for (size_t i = 0; i < zeros.size(); ++i) {
    const ValueInfo& info = session->inputs()[i];
    inputs.push_back({info.name, {info.type, shapes[i], zeros[i].data(), zeros[i].size()}});
  }
  Result<std::vector<Tensor>> outputs = session->Run(inputs);
  if (!outputs.ok()) {
    std::fprintf(stderr, "run_model: %s\n", outputs.error().message.c_str());
    return 1;
  }
  for (size_t i = 0; i < outputs->size(); ++i) {
    std::printf("%s:", session->outputs()[i].name.c_str());
    for (int64_t extent : (*outputs)[i].shape())
      std::printf(" %lld", static_cast<long long>(extent));
    std::printf("\n");
  }
  return 0;
}
