#include "troupe/transport/rendezvous/handlers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/registry.hpp"
#include "troupe/transport/rendezvous/environment.hpp"
#include "troupe/transport/rendezvous/method_url.hpp"

namespace troupe::transport {

namespace {

// The handlers of this process, by scheme.
auto& handlers() {
  static auto* const all = new registry<std::string, rendezvous_handler>;
  return *all;
}

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
  if (!handlers().add(scheme, std::move(handler)))
    throw invalid_argument(fmt::format(
        "{}:// has a handler already; unregister_rendezvous_handler removes it", scheme));
}

bool unregister_rendezvous_handler(const std::string& scheme) { return handlers().remove(scheme); }

bool has_rendezvous_handler(const std::string& init_method) {
  return handlers().contains(split_method(init_method).scheme);
}

std::shared_ptr<store> ask_rendezvous_handler(rendezvous_options& options, bool joiner) {
  auto url = split_method(options.init_method);
  const auto handler = handlers().find(url.scheme);
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
    throw rendezvous_error(fmt::format("the handler of {}:// returned no store for '{}'",
                                       url.scheme, options.init_method));
  if (answer.rank && !joiner) options.rank = answer.rank;
  if (answer.world_size && !joiner) options.world_size = answer.world_size;
  options.timeout = std::max(time_left(deadline), std::chrono::milliseconds{1});
  return std::move(answer.place);
}

}  // namespace troupe::transport
