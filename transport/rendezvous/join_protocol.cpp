#include "troupe/transport/rendezvous/join_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/messages/schema/store.capnp.h"
#include "troupe/transport/store/store_capnp.hpp"

namespace troupe::transport {

namespace {

constexpr std::size_t longest_text = 1024;
constexpr std::size_t longest_failure = 16 * 1024;
constexpr std::size_t longest_entry = longest_joiner_address + 8 * longest_text;

std::string bounded(capnp::Text::Reader text, std::size_t longest, const char* what) {
  if (text.size() > longest)
    throw decode_error(fmt::format("{} has {} bytes; {} are possible", what, text.size(), longest));
  return to_string(text);
}

store::bytes to_vector(capnp::Data::Reader data) {
  const auto bytes = as_bytes(data);
  return {bytes.begin(), bytes.end()};
}

std::string cut(const std::string& text, std::size_t longest) { return text.substr(0, longest); }

}  // namespace

store::bytes encode(const join_message& value) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::JoinMessage>();
  root.setKind(static_cast<schema::JoinMessage::Kind>(value.what));
  root.setVisit(value.visit);
  root.setName(as_text(value.name));
  root.setHasRank(value.rank.has_value());
  root.setRank(value.rank.value_or(0));
  root.setWriter(as_text(cut(value.writer, longest_text)));
  root.setWaitLimitMs(static_cast<std::uint64_t>(
      std::clamp(value.wait_limit, std::chrono::milliseconds{0}, longest_wait_limit).count()));
  root.setAddress(as_data(value.address));
  return flatten(message);
}

store::bytes encode(const join_reply& value) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::JoinReply>();
  root.setFailure(as_text(cut(value.failure, longest_failure)));
  root.setRank(value.rank);
  root.setJobId(value.job_id);
  root.setWelcome(as_data(value.welcome));
  return flatten(message);
}

join_message decode_join_message(const store::bytes& bytes) {
  if (bytes.size() > longest_entry)
    throw decode_error(fmt::format("a joiner's message has {} bytes", bytes.size()));
  return read_message<schema::JoinMessage>(bytes, "a joiner's message", [](auto root) {
    join_message out;
    if (root.getKind() > schema::JoinMessage::Kind::CLOSED)
      throw decode_error("a joiner's message is of unknown kind");
    out.what = static_cast<join_message::kind>(root.getKind());
    out.visit = root.getVisit();
    out.name = bounded(root.getName(), longest_text, "the name of a joiner");
    if (root.getHasRank()) out.rank = root.getRank();
    out.writer = bounded(root.getWriter(), longest_text, "the description of a joiner");
    const auto most = static_cast<std::uint64_t>(longest_wait_limit.count());
    out.wait_limit = std::chrono::milliseconds(std::min(root.getWaitLimitMs(), most));
    out.address = to_vector(root.getAddress());
    if (out.address.size() > longest_joiner_address)
      throw decode_error(fmt::format("the address of a joiner has {} bytes; {} are possible",
                                     out.address.size(), longest_joiner_address));
    return out;
  });
}

join_reply decode_join_reply(const store::bytes& bytes) {
  return read_message<schema::JoinReply>(bytes, "the reply to a joiner", [](auto root) {
    return join_reply{bounded(root.getFailure(), longest_failure, "the refusal of a joiner"),
                      root.getRank(), root.getJobId(), to_vector(root.getWelcome())};
  });
}

}  // namespace troupe::transport
