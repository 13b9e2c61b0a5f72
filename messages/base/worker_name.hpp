#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace troupe {

// A worker may have several names. They travel as one text, separated by commas; the first is the
// one that others use in messages.

/// The names in such a text, in order.
std::vector<std::string> worker_names(std::string_view text);

/// What is wrong with a text of names; empty if nothing is.
std::string worker_name_problem(std::string_view text);

/// The text with the first name filled in where it is empty: "worker<rank>".
std::string complete_worker_name(std::string_view text, std::uint32_t rank);

/// Whether two such texts have a name in common.
bool share_worker_name(std::string_view a, std::string_view b);

}  // namespace troupe
