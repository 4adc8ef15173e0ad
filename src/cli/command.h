// Commands: what the subcommands of the binary share.
//
// Role:       each subcommand's file defines one Add...Command; main.cc calls them all.
// Threads:    used by one thread.
#pragma once

#include <string>

#include <CLI/CLI.hpp>

#include "base/result.h"
#include "ir/graph.h"
#include "onnx/import.h"
#include "runtime/session.h"

namespace parallax::cli {

// Registers the subcommand on `app`. When the user chose it, `*exit_code` is set by its callback:
// 0 done, 1 the work failed (the message went to stderr). Usage errors are thrown: see usage.h.
void AddRunCommand(CLI::App* app, int* exit_code);
void AddBenchCommand(CLI::App* app, int* exit_code);
void AddAnalyzeCommand(CLI::App* app, int* exit_code);
void AddServeCommand(CLI::App* app, int* exit_code);
void AddRouteCommand(CLI::App* app, int* exit_code);
// To add one: a line here, its file NAME.cc, a line in main.cc.

struct ModelOptions {
  std::string path;
  std::string allow_external;
};
void AddModelOptions(CLI::App* app, ModelOptions* options);

// How a session of `run` or `bench` computes.
struct SessionArguments {
  int threads = 0;  // 0: the CPUs of this process
  bool precise = false;
  bool unfused = false;
  runtime::SessionOptions Options() const;
};
void AddSessionOptions(CLI::App* app, SessionArguments* arguments);

// Imports and runs the graph passes.
Result<Model> LoadModel(const ModelOptions& options);

// Prints the error to stderr and gives the exit code.
int Report(const Error& error);

double NowMilliseconds();  // steady clock
int64_t PeakResidentBytes();

}  // namespace parallax::cli
