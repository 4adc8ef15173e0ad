#include "plan/contraction.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace parallax::plan {
namespace {

// Between labels: it halves with each group that is put there, and all are labelled anew when none is left.
constexpr int64_t kGap = int64_t{1} << 30;

}  // namespace

Contraction::Contraction(const Dag& dag)
    : parent_(static_cast<size_t>(dag.size())), groups_(parent_.size()), seen_(parent_.size(), 0) {
  std::iota(parent_.begin(), parent_.end(), 0);
  const std::vector<int32_t> order = *dag.Order();
  for (size_t i = 0; i < order.size(); ++i) {
    Group& g = group(order[i]);
    if (i > 0) g.before = order[i - 1];
    if (i + 1 < order.size()) g.after = order[i + 1];
    const auto in = dag.producers(order[i]), out = dag.consumers(order[i]);
    g.in.assign(in.begin(), in.end());
    g.out.assign(out.begin(), out.end());
  }
  if (!order.empty()) first_ = order[0];
  Relabel();
}

int32_t Contraction::Find(int32_t v) {
  int32_t root = v;
  while (parent_[static_cast<size_t>(root)] != root) root = parent_[static_cast<size_t>(root)];
  while (v != root) v = std::exchange(parent_[static_cast<size_t>(v)], root);
  return root;
}

std::vector<int32_t>& Contraction::Fresh(int32_t g, bool forward) {
  std::vector<int32_t>& list = Neighbours(g, forward);
  for (int32_t& v : list) v = Find(v);
  std::sort(list.begin(), list.end());
  list.erase(std::unique(list.begin(), list.end()), list.end());
  list.erase(std::remove(list.begin(), list.end(), g), list.end());
  return list;
}

bool Contraction::Meets(Side& side, const Side& other, int32_t start, int32_t goal) {
  const int32_t at = side.stack.back();
  side.stack.pop_back();
  const std::vector<int32_t>& list = Fresh(at, side.forward);
  side.edges += list.size();
  const int64_t low = std::min(group(start).label, group(goal).label);
  const int64_t high = std::max(group(start).label, group(goal).label);
  for (int32_t to : list) {
    if (to == goal) {
      if (at != start) return true;
      continue;  // the edge between the two
    }
    int64_t& seen = seen_[static_cast<size_t>(to)];
    if (seen == other.search) return true;
    if (seen == side.search || group(to).label <= low || group(to).label >= high) continue;
    seen = side.search;
    side.found.push_back(to);
    side.stack.push_back(to);
  }
  return false;
}

void Contraction::Unlink(int32_t g) {
  const Group& gone = group(g);
  (gone.before < 0 ? first_ : group(gone.before).after) = gone.after;
  if (gone.after >= 0) group(gone.after).before = gone.before;
}

void Contraction::Place(std::vector<int32_t> moved, int32_t at, bool behind) {
  if (moved.empty()) return;
  std::sort(moved.begin(), moved.end(),
            [&](int32_t x, int32_t y) { return group(x).label < group(y).label; });
  for (int32_t g : moved) Unlink(g);
  int32_t last = behind ? at : group(at).before;
  const int32_t next = behind ? group(at).after : at;
  const int64_t from = last < 0 ? group(next).label - kGap : group(last).label;
  const int64_t to = next < 0 ? from + kGap : group(next).label;
  const int64_t step = (to - from) / (static_cast<int64_t>(moved.size()) + 1);
  int64_t label = from;
  for (int32_t g : moved) {
    (last < 0 ? first_ : group(last).after) = g;
    group(g).before = last;
    group(g).label = label += step;
    last = g;
  }
  group(last).after = next;
  if (next >= 0) group(next).before = last;
  if (step == 0) Relabel();
}

void Contraction::Relabel() {
  int64_t label = 0;
  for (int32_t g = first_; g >= 0; g = group(g).after) group(g).label = label += kGap;
}

bool Contraction::Merge(int32_t a, int32_t b) {
  a = Find(a), b = Find(b);
  if (a == b) return true;
  if (group(a).label > group(b).label) std::swap(a, b);
  Side from_a, from_b;
  from_a.stack = {a}, from_a.search = ++searches_;
  from_b.stack = {b}, from_b.search = ++searches_, from_b.forward = false;
  while (!from_a.stack.empty() && !from_b.stack.empty()) {
    // The end that will have seen less.
    const auto next = [&](const Side& s) {
      return s.edges + Neighbours(s.stack.back(), s.forward).size();
    };
    const bool forward = next(from_a) <= next(from_b);
    if (forward ? Meets(from_a, from_b, a, b) : Meets(from_b, from_a, b, a)) return false;
  }
  // All that depends on `a` goes behind `b`, and the two stand there; or all that `b` depends on goes before
  // `a`, and they stand here.
  const bool there = from_a.stack.empty();
  if (there) {
    Place(std::move(from_a.found), b, /*behind=*/true);
  } else {
    Place(std::move(from_b.found), a, /*behind=*/false);
  }
  int32_t kept = there ? b : a, gone = there ? a : b;
  Unlink(gone);
  // The shorter lists go to the longer ones.
  const auto edges = [&](int32_t g) { return group(g).in.size() + group(g).out.size(); };
  if (edges(kept) < edges(gone)) {
    std::swap(group(kept).in, group(gone).in);
    std::swap(group(kept).out, group(gone).out);
  }
  parent_[static_cast<size_t>(gone)] = kept;
  Group& to = group(kept);
  Group& from = group(gone);
  to.in.insert(to.in.end(), from.in.begin(), from.in.end());
  to.out.insert(to.out.end(), from.out.begin(), from.out.end());
  from = {};
  return true;
}

}  // namespace parallax::plan
