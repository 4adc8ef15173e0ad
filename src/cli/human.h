// Human: numbers and tables for people, never used in JSON.
//
// Role:       what the commands print without --json.
// Threads:    pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace parallax::cli {

std::string HumanBytes(double bytes);                              // "1.5 MiB"
std::string HumanCount(double count, std::string_view unit = "");  // "12.30 GFLOPs", "16 FLOPs"
std::string HumanMilliseconds(double ms);                          // "17.82 ms", "3.1 us", "2.50 s"

// The width of a column that holds all of `texts`, at least `least` characters.
int ColumnWidth(int least, const std::vector<std::string>& texts);

}  // namespace parallax::cli
