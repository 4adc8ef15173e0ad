// A llama-server of our own: started on a free port, watched, started again when it dies.
//
// Role:       the Backend of kind "llama-server" with a command instead of a URL.
// Threads:    the loop's thread only.
// Invariants: after an unexpected end it is started again, later each time (0.5 s doubled up to
//             30 s; from the start again once it has run for a minute). Each start is another boot:
//             its port, its connections and what its cache held are new.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "server/backend.h"
#include "server/log.h"

namespace parallax::server {

class AsioLoop;

struct LlamaProcessOptions {
  std::string name;  // for the log
  // The program and its arguments. "{port}" in a word becomes the port; where no word has it,
  // "--host 127.0.0.1 --port N" is added.
  std::vector<std::string> command;
  std::string api_key;
  double grace_ms = 10'000;  // between SIGTERM and SIGKILL
};

std::unique_ptr<Backend> MakeLlamaProcess(AsioLoop& loop, const LlamaProcessOptions& options,
                                          LogSink log);

}  // namespace parallax::server
