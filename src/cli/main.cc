// parallax: runs, measures and explains ONNX models on small machines.
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"
#include "cli/usage.h"

namespace {

int Run(int argc, char** argv) {
  using namespace parallax::cli;
  int exit_code = 0;
  CLI::App app("parallax: runs ONNX models on small machines and says what they cost", "parallax");
  app.set_version_flag("--version", "parallax " PARALLAX_VERSION);
  app.require_subcommand(1);
  AddRunCommand(&app, &exit_code);
  AddBenchCommand(&app, &exit_code);
  AddAnalyzeCommand(&app, &exit_code);
  AddServeCommand(&app, &exit_code);
  AddRouteCommand(&app, &exit_code);
  try {
    CheckCommandWord(app, argc, argv);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return FinishParse(app, error);
  }
  return exit_code;
}

// Results that did not reach their reader are a failure: a full disk, a closed stdout.
int FinishOutput(int exit_code) {
  errno = 0;
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return exit_code;
  fmt::print(stderr, "parallax: cannot write to standard output{}{}\n", errno == 0 ? "" : ": ",
             errno == 0 ? "" : std::strerror(errno));
  return exit_code == 0 ? 1 : exit_code;
}

}  // namespace

int main(int argc, char** argv) {
  int exit_code = 1;
  // A file above the size limit is then an error of the write, not the end of the program.
  std::signal(SIGXFSZ, SIG_IGN);
  try {
    exit_code = Run(argc, argv);
  } catch (const std::bad_alloc&) {
    std::fputs("parallax: out of memory\n", stderr);
  } catch (const std::exception& error) {
    // fmt::print throws where stdout refuses; FinishOutput says so.
    if (std::ferror(stdout) == 0)
      fmt::print(stderr, "parallax: internal error: {}\n", error.what());
  }
  return FinishOutput(exit_code);
}
