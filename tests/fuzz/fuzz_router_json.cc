// Decision records and model files of arbitrary bytes: refused or accepted, never a crash; what is
// accepted is written and read back as the same value.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "router/decision.h"
#include "router/latency_model.h"
#include "router/model_file.h"

using namespace parallax;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const Result<router::Decision> decision = router::FromJson(text);
  if (decision.ok()) {
    const Result<router::Decision> again = router::FromJson(router::ToJson(*decision));
    if (!again.ok() || !(*again == *decision)) __builtin_trap();
  }
  const Result<router::ModelFile> file = router::ParseModelFile(text);
  if (file.ok()) {
    const Result<router::ModelFile> again = router::ParseModelFile(router::WriteModelFile(*file));
    if (!again.ok() || !(*again == *file)) __builtin_trap();
    for (const router::BackendModelEntry& backend : file->backends) {
      const router::BackendModels models = router::ModelsFor(*file, backend.name, backend.kind);
      const router::Prediction t =
          router::Predict(models.extended, router::MakeWorkload(1000, 100, 500));
      if (!(t.total_ms >= 0)) __builtin_trap();
    }
  }
  return 0;
}
