// What a scripted backend is told to be: its speed, its cache, its faults; and the journal of a test.
//
// Role:       scripted_backend.h carries it out.
// Ownership:  values.
// Threads:    values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "server/backend.h"

namespace parallax::server::fake {

// What all backends of a test did, in order.
struct Journal {
  struct Entry {
    double ms;
    std::string what;  // "cpu.start", "cpu.first", "cpu.finish", "cpu.abort", "cpu.load", ...
  };
  std::vector<Entry> entries;

  void Add(double ms, std::string what) { entries.push_back({ms, std::move(what)}); }
  int Count(std::string_view what) const {
    return static_cast<int>(std::count_if(entries.begin(), entries.end(),
                                          [&](const Entry& e) { return e.what == what; }));
  }
  // Index of the first entry of that name, or -1.
  int Find(std::string_view what) const {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i].what == what) return static_cast<int>(i);
    }
    return -1;
  }
  double TimeOf(std::string_view what) const {
    const int at = Find(what);
    return at < 0 ? -1 : entries[static_cast<std::size_t>(at)].ms;
  }
};

enum class Fault {
  kNone,
  kRefuse,           // nothing can be sent
  kHang,             // takes the request and says nothing
  kDieBefore,        // the connection ends before the first event
  kDieMid,           // and after `fault_after` words
  kStallMid,         // says nothing more after `fault_after` words
  kGarbage,          // HTML
  kBrokenEvents,     // a stream whose events are no JSON
  kEmptyStream,      // a stream without a delta, finish_reason null
  kNoFinish,         // text, then the end without finish_reason or [DONE]
  kStatus,           // `fault_status`, `fault_body`
  kErrorInStream,    // before the first word: an event with `fault_body` as its error
  kErrorMidStream,   // and after `fault_after` words
  kAnswerNotStream,  // a whole JSON answer
};

struct Script {
  std::vector<std::string> models = {"m"};
  std::string identity = "words";  // "" has no tokenizer
  std::string boot = "1";
  std::int64_t context = 8192;
  int slots = 1;
  double prefill_ms = 1;            // a token that is not in the cache
  double decode_ms = 10;            // a token
  double start_ms = 0;              // before the prefill
  int answer_words = 8;             // where the request has no max_tokens
  bool cache = true;                // one sequence, longest common prefix, at most p - 1
  std::int64_t cache_tokens = 0;    // > 0: instead, so many tokens of whole sequences, oldest out
  std::int64_t report_cached = -1;  // >= 0: what it reports, whatever it reused
  bool preemptible = true;
  double count_ms = 0;       // for an answer of its tokenizer; < 0: never
  bool count_fails = false;  // and that is an error
  double ping_ms = 0;        // > 0: a comment so often while it works
  Health health = Health::kReady;
  double probe_ms = 0;  // for an answer to a probe
  bool loadable = false;
  bool loads = true;  // false: never becomes ready
  double load_ms = 1000;
  double unload_ms = 100;
  bool usage_option = false;  // usage must be asked for, and comes in a chunk of its own
  bool echo_option = false;   // the message that an answer continues must be asked for
  Fault fault = Fault::kNone;
  int fault_times = 1 << 30;  // so many calls have it, the later ones not
  int fault_after = 3;
  int fault_status = 500;
  std::string fault_body = R"({"error":{"code":500,"message":"out of order","type":"x"}})";
};

inline Tokens WordTokens(std::string_view text) {
  Tokens tokens;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    if (end > at) {
      std::uint32_t hash = 2166136261U;  // FNV-1a
      for (const char c : text.substr(at, end - at)) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
      }
      tokens.push_back(hash & 0x7fffffffU);
    }
    at = end + 1;
  }
  return tokens;
}

// "p0 p1 p2 ...", `count` words that no other `tag` shares.
inline std::string Words(std::int64_t count, std::string_view tag = "p") {
  std::string text;
  for (std::int64_t i = 0; i < count; ++i) text += fmt::format("{}{}{}", i ? " " : "", tag, i);
  return text;
}

}  // namespace parallax::server::fake
