#include "troupe/actors/groups/network/group_message.hpp"

#include <fmt/format.h>

#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::groups::network {

namespace {

void write_body(encoder& out, const part& what) {
  out.put(what.sequence);
  out.put(what.stage);
  what.content.write(out);
}

void write_body(encoder& out, const letter& what) {
  out.put(what.tag);
  out.put(what.dtype);
  out.put(what.lent);
  if (what.lent != 0)
    out.put(what.lent_bytes);
  else
    what.content.write(out);
}

void write_body(encoder& out, const failure_notice& what) {
  out.put(static_cast<std::uint8_t>(what.why.code));
  out.put(what.why.text);
  out.put(what.why.node);
  out.put(static_cast<std::int64_t>(what.why.limit.count()));
}

void write_body(encoder& out, const leave_notice& what) { out.put(what.last); }

part read_part(decoder& in) {
  part out;
  out.sequence = in.get<std::uint64_t>();
  out.stage = in.get<std::uint32_t>();
  out.content = packet::read(in);
  return out;
}

letter read_letter(decoder& in, std::int32_t from) {
  letter out;
  out.from = from;
  out.tag = in.get<std::int32_t>();
  out.dtype = in.get<std::int8_t>();
  out.lent = in.get<std::uint64_t>();
  if (out.lent != 0)
    out.lent_bytes = in.get<std::uint64_t>();
  else
    out.content = packet::read(in);
  return out;
}

failure_notice read_failure(decoder& in) {
  failure_notice out;
  const auto code = in.get<std::uint8_t>();
  out.why.text = in.get<std::string>();
  out.why.node = in.get<std::string>();
  out.why.limit = std::chrono::milliseconds(in.get<std::int64_t>());
  set_code(out.why, code);
  return out;
}

}  // namespace

void write_message(encoder& out, const group_message& message) {
  out.put(message.group);
  out.put(message.from);
  out.put(message.to);
  out.put(static_cast<std::uint8_t>(message.what.index()));
  std::visit([&](const auto& what) { write_body(out, what); }, message.what);
}

group_message read_message(decoder& in) {
  group_message out;
  out.group = in.get<std::uint64_t>();
  out.from = in.get<std::int32_t>();
  out.to = in.get<std::int32_t>();
  const auto type = in.get<std::uint8_t>();
  switch (type) {
    case 0: out.what = read_part(in); break;
    case 1: out.what = read_letter(in, out.from); break;
    case 2: out.what = read_failure(in); break;
    case 3: out.what = leave_notice{in.get<std::uint64_t>()}; break;
    default: throw decode_error(fmt::format("a message of a group is of unknown type {}", type));
  }
  in.expect_end();
  return out;
}

}  // namespace troupe::groups::network
