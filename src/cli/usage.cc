#include "cli/usage.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <sstream>

#include <fmt/format.h>

#include "cli/human.h"

namespace parallax::cli {
namespace {

constexpr int kUsageExit = 2;

// Letters to insert, delete, replace or swap with a neighbour (optimal string alignment).
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before, last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] =
          std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = row;
  }
  return last[b.size()];
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands({})) names.push_back(command->get_name());
  return names;
}

// "; did you mean '--threads'?" for the first unknown option that resembles a known one.
std::string SuggestOption(const CLI::App& app, const CLI::App& command) {
  std::vector<std::string> known;
  for (const CLI::Option* option : command.get_options({})) {
    for (const std::string& name : option->get_lnames()) known.push_back("--" + name);
  }
  for (const std::string& word : app.remaining(true)) {
    if (!word.starts_with("--")) continue;
    const std::string nearest = Nearest(word.substr(0, word.find('=')), known);
    if (!nearest.empty()) return fmt::format("; did you mean '{}'?", nearest);
  }
  return "";
}

}  // namespace

void FailUsage(const std::string& message) { throw CLI::ParseError(message, kUsageExit); }

std::string Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::string nearest;
  size_t least = std::max<size_t>(word.size() / 3, 1) + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = Distance(word, candidate);
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

void CheckCommandWord(const CLI::App& app, int argc, const char* const* argv) {
  const std::vector<std::string> names = CommandNames(app);
  const std::string list = fmt::format("{}", fmt::join(names, ", "));
  if (argc < 2) FailUsage(fmt::format("a command is missing; there are {}", list));
  const std::string word = argv[1];
  if (word.starts_with("-")) return;
  if (std::find(names.begin(), names.end(), word) != names.end()) return;
  std::error_code ignored;
  std::string hint;
  if (const std::string nearest = Nearest(word, names); !nearest.empty()) {
    hint = fmt::format("; did you mean '{}'?", nearest);
  } else if (std::filesystem::exists(word, ignored)) {
    hint = fmt::format("; the command comes first: parallax run {}", word);
  }
  FailUsage(fmt::format("no command '{}'; there are {}{}", word, list, hint));
}

int FinishParse(const CLI::App& app, const CLI::ParseError& error) {
  std::ostringstream out, err;
  if (error.get_exit_code() == 0) {  // not an error: help or the version was asked for
    app.exit(error, out, err);
    std::fputs(out.str().c_str(), stdout);
    return 0;
  }
  const std::vector<const CLI::App*> chosen =
      app.get_subcommands([](const CLI::App* command) { return command->parsed(); });
  const CLI::App& command = chosen.empty() ? app : *chosen.front();
  const bool extra = error.get_exit_code() == static_cast<int>(CLI::ExitCodes::ExtrasError);
  std::fflush(stdout);
  fmt::print(stderr, "parallax: {}{}\nRun parallax {}--help for what can be given.\n",
             Printable(error.what()), extra ? Printable(SuggestOption(app, command)) : "",
             chosen.empty() ? "" : command.get_name() + " ");
  return kUsageExit;
}

}  // namespace parallax::cli
