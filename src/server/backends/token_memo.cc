#include "server/backends/token_memo.h"

#include <algorithm>
#include <functional>

namespace parallax::server {
namespace {

// Nodes, keys and allocations beside a segment's own bytes.
constexpr std::size_t kOverhead = 192;

}  // namespace

std::size_t TokenMemo::KeyHash::operator()(const Key& key) const {
  return std::hash<std::string_view>()(key.text) ^ (key.parent * 0x9E3779B97F4A7C15U);
}

std::size_t TokenMemo::Cost(const Segment& segment) {
  return kOverhead + segment.text.capacity() +
         segment.tokens.capacity() * sizeof(Tokens::value_type);
}

// From the end to the beginning: a segment is of no use without those before it, so these go last.
void TokenMemo::Touch(const std::vector<Place>& path) {
  for (auto place = path.rbegin(); place != path.rend(); ++place) {
    segments_.splice(segments_.begin(), segments_, *place);
  }
}

TokenMemo::Known TokenMemo::Find(std::string_view text, std::string_view marker) {
  Known known;
  std::vector<Place> path;
  SegmentId parent = 0;
  while (!marker.empty()) {
    const std::size_t found = text.find(marker, known.text_bytes);
    if (found == std::string_view::npos) break;
    const std::size_t end = found + marker.size();
    const auto place = index_.find({parent, text.substr(known.text_bytes, end - known.text_bytes)});
    if (place == index_.end()) break;
    const Segment& segment = *place->second;
    known.tokens.insert(known.tokens.end(), segment.tokens.begin(), segment.tokens.end());
    known.text_bytes = end;
    parent = segment.id;
    path.push_back(place->second);
  }
  Touch(path);
  return known;
}

void TokenMemo::Store(std::string_view text, const Tokens& tokens, const Marker& marker) {
  if (marker.text.empty()) return;
  std::size_t in_text = 0;
  for (std::size_t at = text.find(marker.text); at != std::string_view::npos;
       at = text.find(marker.text, at + marker.text.size())) {
    ++in_text;
  }
  const auto in_tokens = std::count(tokens.begin(), tokens.end(), marker.token);
  if (in_text != static_cast<std::size_t>(in_tokens)) return;

  std::vector<Place> path;
  SegmentId parent = 0;
  std::size_t begin = 0;
  auto first = tokens.begin();
  for (std::size_t i = 0; i < in_text; ++i) {
    const std::size_t end = text.find(marker.text, begin) + marker.text.size();
    const auto last = std::find(first, tokens.end(), marker.token) + 1;
    const std::string_view piece = text.substr(begin, end - begin);
    const auto known = index_.find({parent, piece});
    if (known != index_.end()) {
      path.push_back(known->second);
    } else {
      segments_.push_front({++last_id_, parent, std::string(piece), Tokens(first, last)});
      const Place place = segments_.begin();
      bytes_ += Cost(*place);
      index_.emplace(Key{parent, place->text}, place);
      path.push_back(place);
    }
    parent = path.back()->id;
    begin = end;
    first = last;
  }
  Touch(path);
  while (bytes_ > max_bytes_ && !segments_.empty()) {
    const Segment& oldest = segments_.back();
    bytes_ -= Cost(oldest);
    index_.erase({oldest.parent, oldest.text});
    segments_.pop_back();
  }
}

void TokenMemo::Clear() {
  index_.clear();
  segments_.clear();
  bytes_ = 0;
}

}  // namespace parallax::server
