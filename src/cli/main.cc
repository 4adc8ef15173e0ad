// parallax: runs, measures and explains ONNX models on small machines.
#include <cstdio>
#include <exception>
#include <new>

#include <fmt/format.h>
#include <CLI/CLI.hpp>

#include "cli/command.h"

int main(int argc, char** argv) {
  int exit_code = 0;
  CLI::App app("parallax: runs ONNX models on small machines and says what they cost");
  app.set_version_flag("--version", "parallax " PARALLAX_VERSION);
  app.require_subcommand(1);
  try {
    parallax::cli::AddRunCommand(&app, &exit_code);
    parallax::cli::AddBenchCommand(&app, &exit_code);
    parallax::cli::AddAnalyzeCommand(&app, &exit_code);
    parallax::cli::AddServeCommand(&app, &exit_code);
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const int code = app.exit(error);  // prints help or what is wrong
    return code == 0 ? 0 : 2;
  } catch (const std::bad_alloc&) {
    std::fputs("parallax: out of memory\n", stderr);
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "parallax: internal error: {}\n", error.what());
    return 1;
  }
  return exit_code;
}
