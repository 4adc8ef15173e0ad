// How long a new request waits on a backend before its prefill starts, and how its neighbours
// slow it.
//
// Role:       Decide adds both to the predicted latency; the server derives Retry-After from it.
// Ownership:  values and borrowed spans.
// Threads:    pure.
// Cost:       O(jobs x slots); allocates nothing while running jobs and slots are at most 64.
// Invariants: all results are finite and >= 0 for finite inputs; an idle, ready backend waits 0.
// Source:     FIFO queue in front of `slots` servers. Jobs that run at once slow each other by the
//             factor 1 + sharing (n - 1): a job of T ms among remaining r_i takes
//             T + sharing sum min(r_i, T), exact for sharing 0 (independent) and 1 (one processor
//             shared evenly).
// Example:
//   QueueShape npu{.slots = 1, .preemptible_prefill = false};
//   std::vector<Job> running = {{.prefill_ms = 1300, .decode_ms = 4000, .cancelled = true}};
//   QueueWait w = PredictQueue(npu, running, {});   // start_ms 1300: the device cannot stop
//   earlier
#pragma once

#include <cstdint>
#include <span>

namespace parallax::router {

// What is left of a request: predicted durations on this backend alone, minus what has passed.
struct Job {
  double prefill_ms = 0;   // left; a running job past its prefill has 0
  double decode_ms = 0;    // left
  bool cancelled = false;  // its client is gone: it decodes nothing more, and if it still waits it
                           // never starts; a prefill under way ends early only if preemptible
};

// Slots of one llama-server share its cores. Two prefills at once take twice as long each; batched
// decoding reads the weights once for all slots, but on the few cores of a board it is bound by
// arithmetic too. 1 is the value that never promises capacity that does not exist; it errs towards
// the idle backend.
inline constexpr double kDefaultSharing = 1.0;

struct QueueShape {
  int slots = 1;                     // requests that run at once; >= 1
  bool preemptible_prefill = true;   // false: a cancelled prefill occupies the device to its end
  double ready_in_ms = 0;            // loading still to go before anything can start
  double sharing = kDefaultSharing;  // 0: slots are independent; 1: they share one processor
};

struct QueueWait {
  double start_ms = 0;    // from now until the new request's prefill starts
  double sharing_ms = 0;  // how much longer its own work takes beside what still runs then
};

// `queued` in order of arrival; the new request comes after all of it. `own_ms` is its predicted
// duration alone, for sharing_ms.
QueueWait PredictQueue(const QueueShape& shape, std::span<const Job> running,
                       std::span<const Job> queued, double own_ms);

// Whole seconds, at least 1, until the queue of a full backend has room for one more: until a slot
// is free and the first job that waits starts.
int64_t RetryAfterSeconds(const QueueShape& shape, std::span<const Job> running);

}  // namespace parallax::router
