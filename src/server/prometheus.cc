// /metrics, in the text format of Prometheus (version 0.0.4).
#include <fmt/format.h>

#include "server/service.h"

namespace parallax::server {
namespace {

class Writer {
 public:
  void Head(std::string_view name, std::string_view type, std::string_view help) {
    text_ += fmt::format("# HELP parallax_{0} {2}\n# TYPE parallax_{0} {1}\n", name, type, help);
  }
  template <class Number>
  void Value(std::string_view name, Number value, std::string_view labels = {}) {
    text_ += labels.empty() ? fmt::format("parallax_{} {}\n", name, value)
                            : fmt::format("parallax_{}{{{}}} {}\n", name, labels, value);
  }
  template <class Number>
  void Single(std::string_view name, std::string_view type, std::string_view help, Number value) {
    Head(name, type, help);
    Value(name, value);
  }
  void Distribution(std::string_view name, std::string_view help, const Histogram& histogram) {
    Head(name, "histogram", help);
    std::uint64_t below = 0;
    for (std::size_t i = 0; i < histogram.bounds.size(); ++i) {
      below += histogram.counts[i];
      text_ +=
          fmt::format("parallax_{}_bucket{{le=\"{}\"}} {}\n", name, histogram.bounds[i], below);
    }
    text_ += fmt::format(
        "parallax_{0}_bucket{{le=\"+Inf\"}} {1}\nparallax_{0}_sum {2}\n"
        "parallax_{0}_count {1}\n",
        name, histogram.count, histogram.sum);
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

}  // namespace

std::string PrometheusText(const Dispatcher& dispatcher, const http::ServerCounters* counters) {
  Writer out;
  const Metrics& metrics = dispatcher.metrics();
  out.Head("answers_total", "counter",
           "Generation requests by the status they were answered with.");
  for (const auto& [status, n] : metrics.answers) {
    out.Value("answers_total", n, fmt::format("status=\"{}\"", status));
  }
  out.Head("decisions_total", "counter", "Decisions by their status.");
  for (const auto& [status, n] : metrics.decisions) {
    out.Value("decisions_total", n, fmt::format("status=\"{}\"", status));
  }
  out.Single("queue_cancelled_total", "counter",
             "Requests whose client left before they were sent to a backend.",
             metrics.queue_cancelled);
  out.Single("cancelled_total", "counter", "Requests whose client left while a backend worked.",
             metrics.cancelled);
  out.Single("retries_total", "counter", "Requests sent again to another backend.",
             metrics.retries);
  out.Single("prefix_mispredict_total", "counter",
             "Answers that reported less reuse than the prefix index predicted.",
             metrics.prefix_mispredict);
  out.Single("decisions_lost_total", "counter", "Decision records that could not be written.",
             dispatcher.records().lost());
  out.Single("prefix_index_bytes", "gauge", "Memory of the prefix index.",
             dispatcher.index().bytes());
  out.Single("prefix_index_entries", "gauge", "Sequences in the prefix index.",
             dispatcher.index().entries());
  out.Single("jobs", "gauge", "Requests under way, waiting ones included.", dispatcher.jobs());
  out.Distribution("decide_seconds", "Time of a decision.", metrics.decide_seconds);
  out.Distribution("count_seconds", "Wait for token counts.", metrics.count_seconds);
  out.Distribution("queue_seconds", "Wait from decision to dispatch.", metrics.queue_seconds);
  out.Distribution("ttft_seconds", "Time to first token.", metrics.ttft_seconds);
  out.Distribution("total_seconds", "Time of a whole answer.", metrics.total_seconds);
  out.Distribution("prediction_error_ratio",
                   "Relative error of the latency predicted for the tokens that came.",
                   metrics.prediction_error_ratio);

  struct Family {
    std::string_view name, type, help;
    double (*value)(const Dispatcher&, const BackendState&);
  };
  static constexpr Family kFamilies[] = {
      {"backend_up", "gauge", "1 where the backend is ready.",
       [](const Dispatcher&, const BackendState& b) {
         return b.health == Health::kReady && b.backend->loaded() ? 1.0 : 0.0;
       }},
      {"in_flight", "gauge", "Requests that the backend works on.",
       [](const Dispatcher&, const BackendState& b) {
         return static_cast<double>(b.running.size());
       }},
      {"queued", "gauge", "Requests that wait for the backend.",
       [](const Dispatcher&, const BackendState& b) {
         return static_cast<double>(b.queued.size());
       }},
      {"sent_total", "counter", "Requests sent to the backend.",
       [](const Dispatcher&, const BackendState& b) { return static_cast<double>(b.sent); }},
      {"completed_total", "counter", "Requests it answered.",
       [](const Dispatcher&, const BackendState& b) { return static_cast<double>(b.completed); }},
      {"failed_total", "counter", "Requests it failed.",
       [](const Dispatcher&, const BackendState& b) { return static_cast<double>(b.failed); }},
      {"prompt_tokens_total", "counter", "Prompt tokens, reused ones included.",
       [](const Dispatcher&, const BackendState& b) { return static_cast<double>(b.tokens_in); }},
      {"reused_tokens_total", "counter", "Prompt tokens that its cache held, as it reports.",
       [](const Dispatcher&, const BackendState& b) {
         return static_cast<double>(b.tokens_reused);
       }},
      {"generated_tokens_total", "counter", "Tokens generated.",
       [](const Dispatcher&, const BackendState& b) { return static_cast<double>(b.tokens_out); }},
      {"reuse_checked_total", "counter", "Answers whose reported reuse was compared.",
       [](const Dispatcher&, const BackendState& b) {
         return static_cast<double>(b.reuse_checked);
       }},
      {"reuse_exact_total", "counter", "Those where it was the predicted one.",
       [](const Dispatcher&, const BackendState& b) { return static_cast<double>(b.reuse_exact); }},
      {"breaker_open", "gauge", "1 while its circuit breaker is not closed.",
       [](const Dispatcher&, const BackendState& b) {
         // Open or half open, which is all the time tells: closed is closed at any time.
         return b.breaker.State(/*now_ms=*/0) == router::BreakerState::kClosed ? 0.0 : 1.0;
       }},
      {"index_bytes", "gauge", "Memory of its part of the prefix index.",
       [](const Dispatcher& d, const BackendState& b) {
         return static_cast<double>(d.index().Gauges(b.id()).bytes);
       }},
  };
  for (const Family& family : kFamilies) {
    out.Head(family.name, family.type, family.help);
    for (const auto& backend : dispatcher.backends()) {
      out.Value(family.name, family.value(dispatcher, *backend),
                fmt::format("backend=\"{}\"", backend->name));
    }
  }
  if (counters != nullptr) {
    out.Single("http_connections", "gauge", "Open client connections.", counters->open);
    out.Single("http_accepted_total", "counter", "Connections accepted.", counters->accepted);
    out.Single("http_refused_total", "counter", "Connections over the limit.", counters->refused);
    out.Single("http_malformed_total", "counter", "Requests that were not HTTP or too large.",
               counters->malformed);
    out.Single("http_timed_out_total", "counter", "Connections closed for being slow.",
               counters->timed_out);
  }
  return out.Take();
}

}  // namespace parallax::server
