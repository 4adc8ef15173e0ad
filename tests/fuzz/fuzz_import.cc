// The importer on arbitrary bytes: it must refuse or accept, never crash, hang or read outside.
// Accepted models also go through the passes and a cost estimate at unit shapes.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "onnx/import.h"
#include "passes/passes.h"
#include "plan/cost.h"

using namespace parallax;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto owner = std::make_shared<std::vector<uint8_t>>(data, data + size);
  Result<Model> model =
      onnx_import::ImportBytes(std::as_bytes(std::span<const uint8_t>(*owner)), owner, {});
  if (!model.ok()) return 0;
  if (!model->graph.Verify().ok()) __builtin_trap();
  if (!passes::Optimize(&*model).ok()) return 0;
  (void)plan::CostOf(model->graph, ops::DeclaredInputs(model->graph));
  return 0;
}
