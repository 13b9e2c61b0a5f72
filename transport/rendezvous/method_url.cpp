#include "troupe/transport/rendezvous/method_url.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/whole_number.hpp"

namespace troupe::transport {

namespace {

std::uint32_t read_rank(const std::string& method, const std::string& text, const char* what) {
  const auto out = whole_number<std::uint32_t>(text);
  if (!out) fail_method(method, fmt::format("'{}' is no {}", text, what));
  return *out;
}

}  // namespace

void fail_method(const std::string& method, const std::string& why) {
  throw rendezvous_error(
      fmt::format("init_method '{}' cannot be used: {}; it must be env://, tcp://HOST:PORT or "
                  "file:///PATH, the last two with ?rank=R&world_size=N if need be, or of a scheme "
                  "for which register_rendezvous_handler has been called",
                  method, why));
}

method_url split_method(const std::string& method) {
  method_url out;
  std::string_view rest = method;
  const auto question = rest.find('?');
  if (question != rest.npos) {
    auto query = rest.substr(question + 1);
    rest = rest.substr(0, question);
    while (!query.empty()) {
      const auto part = query.substr(0, query.find('&'));
      query.remove_prefix(std::min(query.size(), part.size() + 1));
      const auto equals = part.find('=');
      out.query.emplace_back(part.substr(0, equals),
                             equals == part.npos ? std::string_view() : part.substr(equals + 1));
    }
  }
  if (const auto scheme = rest.find("://"); scheme != rest.npos) {
    out.scheme = rest.substr(0, scheme);
    rest.remove_prefix(scheme + 3);
  }
  out.rest = rest;
  return out;
}

void take_ranks(method_url& url, rendezvous_options& options) {
  const auto take = [&](const auto& pair) {
    const auto& [key, value] = pair;
    if (key == "rank") {
      const auto rank = read_rank(options.init_method, value, "rank");
      if (!options.rank) options.rank = rank;
    } else if (key == "world_size") {
      const auto size = read_rank(options.init_method, value, "world size");
      if (!options.world_size) options.world_size = size;
    } else {
      return false;
    }
    return true;
  };
  std::erase_if(url.query, take);
}

}  // namespace troupe::transport
