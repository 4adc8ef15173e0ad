#include "cli/command.h"

#include <chrono>
#include <cstdio>
#include <fstream>

#include <fmt/format.h>

#include "cli/human.h"
#include "passes/passes.h"
#include "threads/team.h"

namespace parallax::cli {

void AddModelOptions(CLI::App* app, ModelOptions* options) {
  app->add_option("model", options->path, "ONNX model file")->required()->type_name("MODEL");
  app->add_option("--allow-external", options->allow_external,
                  "Folder outside the model's own that external weights may lie in")
      ->check(CLI::Validator(CLI::ExistingDirectory).description(""))
      ->type_name("FOLDER");
}

runtime::SessionOptions SessionArguments::Options() const {
  runtime::SessionOptions options;
  options.threads = threads > 0 ? threads : UsableCpus();
  options.execution.precise = precise;
  options.execution.lower = !unfused;
  return options;
}

void AddSessionOptions(CLI::App* app, SessionArguments* arguments) {
  app->add_option("--threads", arguments->threads, "Threads (default: the CPUs of this process)")
      ->check(CLI::Range(1, 1024));
  app->add_flag("--precise", arguments->precise,
                "Multiply what the model says: no Winograd, no subnormal weights taken as 0");
  app->add_flag("--unfused", arguments->unfused,
                "Run the model's operators one by one, in its own layout");
}

Result<Model> LoadModel(const ModelOptions& options) {
  onnx_import::ImportOptions import;
  import.allow_external = options.allow_external;
  PX_ASSIGN_OR_RETURN(Model model, onnx_import::ImportFile(options.path, import));
  Result<void> optimized = passes::Optimize(&model);
  if (!optimized.ok()) return optimized.error().WithContext(options.path);
  return model;
}

int Report(const Error& error) {
  std::fflush(stdout);
  fmt::print(stderr, "parallax: {}\n", Printable(error.message()));
  return 1;
}

double NowMilliseconds() {
  using std::chrono::duration;
  return duration<double, std::milli>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::atoll(line.c_str() + 6) * 1024;
  }
  return 0;
}

}  // namespace parallax::cli
