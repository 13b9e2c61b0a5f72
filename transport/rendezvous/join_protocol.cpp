#include "troupe/transport/rendezvous/join_protocol.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/messages/schema/store.capnp.h"
#include "troupe/transport/store/tcp/store_capnp.hpp"

namespace troupe::transport {

namespace {

constexpr std::size_t longest_text = 1024;
constexpr std::size_t longest_failure = 16 * 1024;
constexpr std::size_t longest_entry = longest_door_address + 8 * longest_text;

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

store::bytes encode(const door_entry& value) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::DoorEntry>();
  root.setKind(static_cast<schema::DoorEntry::Kind>(value.what));
  root.setVisit(value.visit);
  root.setName(as_text(value.name));
  root.setHasRank(value.rank.has_value());
  root.setRank(value.rank.value_or(0));
  root.setWriter(as_text(cut(value.writer, longest_text)));
  root.setPatienceMs(static_cast<std::uint64_t>(
      std::clamp(value.patience, std::chrono::milliseconds{0}, longest_patience).count()));
  root.setAddress(as_data(value.address));
  return flatten(message);
}

store::bytes encode(const door_answer& value) {
  capnp::MallocMessageBuilder message;
  auto root = message.initRoot<schema::DoorAnswer>();
  root.setFailure(as_text(cut(value.failure, longest_failure)));
  root.setRank(value.rank);
  root.setJobId(value.job_id);
  root.setWelcome(as_data(value.welcome));
  return flatten(message);
}

door_entry decode_door_entry(const store::bytes& bytes) {
  if (bytes.size() > longest_entry)
    throw decode_error(fmt::format("a newcomer's letter has {} bytes", bytes.size()));
  return read_message<schema::DoorEntry>(bytes, "a newcomer's letter", [](auto root) {
    door_entry out;
    if (root.getKind() > schema::DoorEntry::Kind::CLOSED)
      throw decode_error("a newcomer's letter is of unknown kind");
    out.what = static_cast<door_entry::kind>(root.getKind());
    out.visit = root.getVisit();
    out.name = bounded(root.getName(), longest_text, "a newcomer's name");
    if (root.getHasRank()) out.rank = root.getRank();
    out.writer = bounded(root.getWriter(), longest_text, "what a newcomer says of itself");
    const auto most = static_cast<std::uint64_t>(longest_patience.count());
    out.patience = std::chrono::milliseconds(std::min(root.getPatienceMs(), most));
    out.address = to_vector(root.getAddress());
    if (out.address.size() > longest_door_address)
      throw decode_error(fmt::format("a newcomer's address has {} bytes; {} are possible",
                                     out.address.size(), longest_door_address));
    return out;
  });
}

door_answer decode_door_answer(const store::bytes& bytes) {
  return read_message<schema::DoorAnswer>(bytes, "the answer to a newcomer", [](auto root) {
    return door_answer{bounded(root.getFailure(), longest_failure, "the refusal of a newcomer"),
                       root.getRank(), root.getJobId(), to_vector(root.getWelcome())};
  });
}

}  // namespace troupe::transport
