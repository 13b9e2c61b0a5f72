#include "troupe/actors/simulation/trace.hpp"

#include <fmt/format.h>

#include "troupe/actors/rpc/function_table.hpp"
#include "troupe/messages/envelope/envelope.hpp"

namespace troupe {

namespace {

std::string what_it_is(const envelope_header& header) {
  switch (header.kind) {
    case envelope_kind::call: {
      const auto* function = find_function(header.target);
      return fmt::format("call of {}", function ? function->name : "an unknown function");
    }
    case envelope_kind::actor_message: return fmt::format("message for actor {}", header.target);
    case envelope_kind::response: return fmt::format("answer to request {}", header.target);
    case envelope_kind::failure: return fmt::format("failure of request {}", header.target);
    case envelope_kind::control: break;
  }
  const char* channels[] = {
      "handles and windows", "shutdown", "membership", "rrefs", "calls", "deadlocks"};
  return fmt::format("control message: {}",
                     header.target < std::size(channels) ? channels[header.target] : "?");
}

}  // namespace

std::string describe_message(clock::time_point when, transport::rank_t to,
                             const transport::incoming_message& message) {
  const auto time = std::chrono::duration<double>(when.time_since_epoch()).count();
  std::string what = "an envelope that cannot be opened";
  std::size_t size = message.envelope.size();
  for (const auto& payload : message.payloads) size += payload.size;
  try {
    const opened_envelope opened(frame(message.envelope.bytes()), message.payloads);
    const auto& header = opened.header();
    what = what_it_is(header);
    if (header.request != 0) what += fmt::format(", request {}", header.request);
    what += fmt::format(", epoch {}", header.epoch);
  } catch (const error&) {
    // The text says so already.
  }
  return fmt::format("{:.9f} rank {} > rank {}: {}, {} bytes", time, message.from, to, what, size);
}

}  // namespace troupe
