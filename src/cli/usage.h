// Usage: what is wrong with the command line itself, in words that help to put it right.
//
// Role:       main.cc around the option parser; commands, for what only the model shows (an input
//             that is not given, a name it does not have).
// Threads:    used by one thread.
// Invariants: every usage error ends the program with exit code 2 and one message on stderr.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>

namespace parallax::cli {

// Throws what the option parser throws; main.cc catches both. For use inside this room only.
[[noreturn]] void FailUsage(const std::string& message);

// Fails where the first argument is neither an option nor the name of a subcommand: the parser
// itself would only say that one is missing.
void CheckCommandWord(const CLI::App& app, int argc, const char* const* argv);

// Prints help or the version to stdout, or the error to stderr. Returns the exit code: 0 or 2.
int FinishParse(const CLI::App& app, const CLI::ParseError& error);

// The candidate nearest to `word` within a third of its letters, or "".
std::string Nearest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace parallax::cli
