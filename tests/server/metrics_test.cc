// /metrics, read as strictly as Prometheus reads it, and /status.json.
#include <cmath>
#include <map>
#include <set>
#include <sstream>

#include "server/metrics.h"
#include "tests/server/rig.h"

namespace parallax::server::fake {
namespace {

struct Exposition {
  std::map<std::string, std::string> types;
  std::map<std::string, double> samples;  // by name with its labels
  std::string error;
};

bool IsName(std::string_view name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  }) && !(name[0] >= '0' && name[0] <= '9');
}

// Format 0.0.4: HELP and TYPE once before a family's samples, families not mixed, no sample twice.
Exposition ParseMetrics(const std::string& text) {
  Exposition e;
  const auto fail = [&](const std::string& line) {
    if (e.error.empty()) e.error = line;
  };
  if (text.empty() || text.back() != '\n') fail("no line end at the end");
  std::istringstream in(text);
  std::string family, helped;
  std::set<std::string> families;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string a, b, c;
    words >> a >> b >> c;
    if (a == "#") {
      std::string rest;
      std::getline(words, rest);
      if (b == "HELP") {
        helped = c;
        if (!IsName(c) || rest.size() < 2) fail(line);
      } else if (b == "TYPE") {
        std::istringstream type(rest);
        std::string kind, more;
        type >> kind >> more;
        if (c != helped || !families.insert(c).second || !more.empty()) fail(line);
        if (kind != "counter" && kind != "gauge" && kind != "histogram") fail(line);
        e.types[c] = kind;
        family = c;
      } else {
        fail(line);
      }
      continue;
    }
    const std::size_t space = line.rfind(' ');
    if (space == std::string::npos) {
      fail(line);
      continue;
    }
    const std::string sample = line.substr(0, space);
    const std::string number = line.substr(space + 1);
    char* end = nullptr;
    const double value = std::strtod(number.c_str(), &end);
    if (number.empty() || *end != '\0' || !std::isfinite(value)) fail(line);
    const std::string name = sample.substr(0, sample.find('{'));
    std::string base = name;
    if (e.types[family] == "histogram") {
      for (const char* suffix : {"_bucket", "_sum", "_count"}) {
        if (base == family + suffix) base = family;
      }
    }
    if (base != family || !IsName(name)) fail(line);
    if (sample != name) {  // one label: key="value"
      const std::size_t equals = sample.find("=\"");
      if (equals == std::string::npos || !sample.ends_with("\"}") ||
          !IsName(sample.substr(name.size() + 1, equals - name.size() - 1))) {
        fail(line);
      }
    }
    if (!e.samples.emplace(sample, value).second) fail(line);
  }
  return e;
}

TEST(Metrics, AreWellFormedAndRight) {
  Rig rig;
  rig.Add("cpu", {});
  rig.Add("npu-1.x", {.prefill_ms = 50, .health = Health::kDown}, {.models = {"m"}});
  rig.Start();
  ASSERT_TRUE(rig.Await(rig.Chat("hi")));
  ASSERT_TRUE(rig.Await(rig.Chat("hi", {{"model", "nobody"}})));
  const Client leaves = rig.Chat("hi", {{"max_tokens", 100}});
  rig.loop.RunFor(50);
  leaves->Leave();
  const Client runs = rig.Chat("hi", {{"max_tokens", 100}});
  rig.loop.RunFor(50);
  http::ServerCounters counters;
  counters.accepted = 4;
  counters.open = 2;
  const Exposition e = ParseMetrics(PrometheusText(rig.dispatcher(), &counters));
  EXPECT_EQ(e.error, "");
  const auto is = [&](const std::string& sample, double value) {
    const auto found = e.samples.find("parallax_" + sample);
    ASSERT_NE(found, e.samples.end()) << sample;
    EXPECT_EQ(found->second, value) << sample;
  };
  is("answers_total{status=\"200\"}", 1);
  is("answers_total{status=\"404\"}", 1);
  is("cancelled_total", 1);
  is("queue_cancelled_total", 0);
  is("jobs", 1);
  is("in_flight{backend=\"cpu\"}", 1);
  is("backend_up{backend=\"cpu\"}", 1);
  is("backend_up{backend=\"npu-1.x\"}", 0);
  is("sent_total{backend=\"cpu\"}", 3);
  is("completed_total{backend=\"cpu\"}", 1);
  is("prompt_tokens_total{backend=\"cpu\"}", 3);
  is("generated_tokens_total{backend=\"cpu\"}", 8);
  is("http_accepted_total", 4);
  is("http_connections", 2);
  is("total_seconds_count", 1);
  is("total_seconds_bucket{le=\"+Inf\"}", 1);
  is("total_seconds_bucket{le=\"0.05\"}", 0);
  is("total_seconds_bucket{le=\"0.1\"}", 1);
  EXPECT_EQ(e.types.at("parallax_total_seconds"), "histogram");
  // Without a server's own counters the text is whole, too.
  EXPECT_EQ(ParseMetrics(PrometheusText(rig.dispatcher(), nullptr)).error, "");
}

// A breaker that is open is 1, closed again it is 0.
TEST(Metrics, BreakerGauge) {
  Rig rig;
  ScriptedBackend& cpu = rig.Add("cpu", {.fault = Fault::kDieBefore});
  rig.Start();
  const auto gauge = [&] {
    return ParseMetrics(PrometheusText(rig.dispatcher(), nullptr))
        .samples["parallax_breaker_open{backend=\"cpu\"}"];
  };
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(rig.Await(rig.Chat("hi")));
  EXPECT_EQ(gauge(), 0);
  ASSERT_TRUE(rig.Await(rig.Chat("hi")));
  EXPECT_EQ(gauge(), 1);
  cpu.script.fault = Fault::kNone;
  rig.loop.RunFor(1100);
  ASSERT_TRUE(rig.Await(rig.Chat("hi")));
  EXPECT_EQ(gauge(), 0);
  // One failure after that opens nothing.
  cpu.script.fault = Fault::kDieBefore;
  ASSERT_TRUE(rig.Await(rig.Chat("hi")));
  EXPECT_EQ(gauge(), 0);
}

TEST(Histogram, Buckets) {
  Histogram h(kSecondsBounds);
  for (const double value : {2.5e-6, 2.6e-6, 1e9}) h.Add(value);
  EXPECT_EQ(h.counts[0], 1U);  // le includes its bound
  EXPECT_EQ(h.counts[1], 1U);
  EXPECT_EQ(h.counts.back(), 1U);
  EXPECT_EQ(h.count, 3U);
  EXPECT_NEAR(h.sum, 1e9, 1e-3);
}

TEST(StatusJson, ShowsWhatHappens) {
  Rig rig;
  rig.Add("cpu", {});
  rig.Add("npu", {.prefill_ms = 50}, {.single_flight = true, .preemptible_prefill = false});
  rig.Start();
  ASSERT_TRUE(rig.Await(rig.Chat("hi")));
  const Client runs = rig.Chat("hi", {{"max_tokens", 100}}, {.backend = "cpu"});
  const Client waits = rig.Chat("hi", {{"max_tokens", 100}}, {.backend = "cpu"});
  const Client gone = rig.Chat("hi", {}, {.backend = "npu"});
  rig.loop.RunFor(50);
  gone->Leave();
  const json status = json::parse(StatusJson(rig.dispatcher(), rig.loop.NowMs()));
  EXPECT_EQ(status["totals"]["under_way"], 2);
  EXPECT_EQ(status["totals"]["answers"], 1);
  EXPECT_EQ(status["totals"]["errors"], 0);
  EXPECT_EQ(status["totals"]["cancelled"], 1);
  const json& cpu = status["backends"][0];
  EXPECT_EQ(cpu["name"], "cpu");
  EXPECT_EQ(cpu["state"], "ready");
  EXPECT_EQ(cpu["context"], 8192);
  ASSERT_EQ(cpu["jobs"].size(), 2U);
  EXPECT_EQ(cpu["jobs"][0]["state"], "decode");
  EXPECT_EQ(cpu["jobs"][1]["state"], "queued");
  EXPECT_EQ(cpu["tokens"]["counted"], "exact");
  EXPECT_EQ(status["backends"][1]["busy_for_cancelled"], 1);
  ASSERT_EQ(status["decisions"].size(), 4U);
  EXPECT_EQ(status["decisions"][0]["finish"], "cancelled");  // newest first
  EXPECT_EQ(status["decisions"][3]["finished"], true);
  EXPECT_TRUE(status["decisions"][3]["measured_ms"].is_number());
  EXPECT_TRUE(status["decisions"][1]["measured_ms"].is_null());
}

}  // namespace
}  // namespace parallax::server::fake
