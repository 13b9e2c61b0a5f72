#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/transport/rendezvous/options.hpp"

namespace troupe::transport {

/// The parts of an init_method: "SCHEME://REST?KEY=VALUE&...".
struct method_url {
  std::string scheme;  ///< empty without "://"
  std::string rest;
  std::vector<std::pair<std::string, std::string>> query;
};

method_url split_method(const std::string& method);

/// Moves `rank` and `world_size` from the query to `options`, where these are not set. Throws
/// rendezvous_error for a malformed number.
void take_ranks(method_url& url, rendezvous_options& options);

/// Throws rendezvous_error: why `method` cannot be used, and which can.
[[noreturn]] void fail_method(const std::string& method, const std::string& why);

}  // namespace troupe::transport
