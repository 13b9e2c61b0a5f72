#include "troupe/transport/rendezvous/handlers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <string_view>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/environment.hpp"
#include "troupe/transport/rendezvous/method_url.hpp"

namespace troupe::transport {

namespace {

// The handlers of this process.
struct handler_table {
  std::mutex mutex;
  std::map<std::string, rendezvous_handler> by_scheme;

  static handler_table& here() {
    static handler_table one;
    return one;
  }

  rendezvous_handler find(const std::string& scheme) {
    std::lock_guard lock(mutex);
    const auto found = by_scheme.find(scheme);
    return found == by_scheme.end() ? rendezvous_handler() : found->second;
  }
};

bool is_scheme(std::string_view text) {
  const auto is_letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && is_letter(text[0]) && std::ranges::all_of(text, [&](char c) {
    return is_letter(c) || (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
  });
}

}  // namespace

void register_rendezvous_handler(const std::string& scheme, rendezvous_handler handler) {
  if (!is_scheme(scheme))
    throw invalid_argument(
        fmt::format("'{}' is not a URL scheme: it must be lower case letters, digits, '+', '-' and "
                    "'.', with a letter first",
                    scheme));
  if (scheme == "env" || scheme == "tcp" || scheme == "file")
    throw invalid_argument(
        fmt::format("jobs meet at {}:// without a handler; choose another scheme", scheme));
  if (!handler)
    throw invalid_argument(fmt::format("the handler of {}:// is an empty function", scheme));
  auto& table = handler_table::here();
  std::lock_guard lock(table.mutex);
  if (!table.by_scheme.emplace(scheme, std::move(handler)).second)
    throw invalid_argument(fmt::format(
        "{}:// has a handler already; unregister_rendezvous_handler removes it", scheme));
}

bool unregister_rendezvous_handler(const std::string& scheme) {
  auto& table = handler_table::here();
  std::lock_guard lock(table.mutex);
  return table.by_scheme.erase(scheme) > 0;
}

bool has_rendezvous_handler(const std::string& init_method) {
  return static_cast<bool>(handler_table::here().find(split_method(init_method).scheme));
}

std::shared_ptr<store> ask_rendezvous_handler(rendezvous_options& options, bool joiner) {
  auto url = split_method(options.init_method);
  const auto handler = handler_table::here().find(url.scheme);
  // A timeout that is not positive is reported first, elsewhere.
  if (!handler || options.timeout <= std::chrono::milliseconds{0}) return nullptr;
  take_ranks(url, options);
  auto rank = options.rank;
  auto world_size = options.world_size;
  if (!joiner && !(rank && world_size)) {
    const auto there =
        read_job_place(options.variables ? options.variables : process_environment());
    if (!rank) rank = there.rank;
    if (!world_size) world_size = there.world_size;
  }
  const auto deadline = deadline_after(options.timeout);
  auto answer = handler({.url = options.init_method,
                         .scheme = url.scheme,
                         .rest = url.rest,
                         .query = std::move(url.query),
                         .rank = rank,
                         .world_size = world_size,
                         .joins_running = joiner,
                         .timeout = options.timeout});
  if (!answer.place)
    throw rendezvous_error(fmt::format("the handler of {}:// has given no store for '{}'",
                                       url.scheme, options.init_method));
  if (answer.rank && !joiner) options.rank = answer.rank;
  if (answer.world_size && !joiner) options.world_size = answer.world_size;
  options.timeout = std::max(time_left(deadline), std::chrono::milliseconds{1});
  return std::move(answer.place);
}

}  // namespace troupe::transport
