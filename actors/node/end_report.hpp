#pragma once

#include <exception>
#include <string>
#include <vector>

#include "troupe/actors/cluster/peer_table.hpp"

namespace troupe {

struct rref_leak;

namespace detail {

// What a graceful shutdown reports of errors meanwhile.

/// The text about the rrefs that one node still has; names the first `most`. Pre: there are some.
std::string text_of_leaks(const std::vector<rref_leak>& leaks, std::size_t most);

/// The text about a peer of `here` that was lost; `replaced`: its rank has come back since.
std::string text_of_loss(const std::string& here, const peer& lost, bool replaced);

/// peer_lost, for the calls to `gone` that the shutdown has waited for. Pre: there are some, and
/// all of these peers had such calls.
std::exception_ptr broken_promises(const std::vector<const peer*>& gone);

}  // namespace detail

}  // namespace troupe
