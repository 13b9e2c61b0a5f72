#pragma once

#include <string>
#include <utility>
#include <vector>

#include "troupe/transport/rendezvous/options.hpp"

namespace troupe::transport {

/// An init_method taken apart: "SCHEME://REST?KEY=VALUE&...".
struct method_url {
  std::string scheme;  ///< empty without "://"
  std::string rest;
  std::vector<std::pair<std::string, std::string>> query;
};

method_url split_method(const std::string& method);

/// Takes `rank` and `world_size` out of the query, into `options` where these name none. Throws
/// rendezvous_error for what is no such number.
void take_ranks(method_url& url, rendezvous_options& options);

/// Throws rendezvous_error: why `method` cannot be used, and what can.
[[noreturn]] void fail_method(const std::string& method, const std::string& why);

}  // namespace troupe::transport
