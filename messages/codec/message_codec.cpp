#include "troupe/messages/codec/message_codec.hpp"

#include <caf/atom.hpp>
#include <caf/exit_reason.hpp>
#include <caf/sec.hpp>

#include <algorithm>
#include <limits>

namespace troupe {

namespace {

constexpr auto category = caf::atom("troupe");

}  // namespace

caf::error to_caf(const fault& f) {
  return caf::error(static_cast<std::uint8_t>(f.code), category,
                    caf::make_message(f.text, f.node, f.function, f.type,
                                      static_cast<std::int64_t>(f.limit.count()), f.trace, f.via));
}

bool is_troupe(const caf::error& e) noexcept { return e && e.category() == category; }

fault to_fault(const caf::error& e) {
  fault f;
  if (!e) {
    f.text = "no error";
    return f;
  }
  if (is_troupe(e) && e.context()
                          .match_elements<std::string, std::string, std::string, std::string,
                                          std::int64_t, std::string, std::string>()) {
    f.text = e.context().get_as<std::string>(0);
    f.node = e.context().get_as<std::string>(1);
    f.function = e.context().get_as<std::string>(2);
    f.type = e.context().get_as<std::string>(3);
    // What `chrono` converts to nanoseconds must not overflow.
    const auto limit = e.context().get_as<std::int64_t>(4);
    constexpr auto longest = std::numeric_limits<std::int64_t>::max() / 1'000'000;
    f.limit = std::chrono::milliseconds(std::clamp<std::int64_t>(limit, 0, longest));
    f.trace = e.context().get_as<std::string>(5);
    f.via = e.context().get_as<std::string>(6);
    set_code(f, e.code());
    return f;
  }
  f.code = errc::remote_error;
  if (e.category() == caf::atom("system")) {
    auto code = static_cast<caf::sec>(e.code());
    if (code == caf::sec::request_receiver_down) f.code = errc::actor_down;
    if (code == caf::sec::request_timeout) f.code = errc::rpc_timeout;
    f.text = to_string(code);
  } else if (e.category() == caf::atom("exit")) {
    f.code = errc::actor_down;
    f.text = "the actor ended: " + to_string(static_cast<caf::exit_reason>(e.code()));
  } else {
    f.text = to_string(e);
  }
  if (e.category() == caf::atom("system") && !e.context().empty())
    f.text += " " + to_string(e.context());
  f.type = "caf::error";
  return f;
}

}  // namespace troupe
