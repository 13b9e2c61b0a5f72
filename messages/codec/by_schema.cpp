#include "troupe/messages/codec/by_schema.hpp"

namespace troupe::detail {

void put_words(encoder& out, capnp::MessageBuilder& message) {
  const auto flat = capnp::messageToFlatArray(message);
  out.put(static_cast<std::uint64_t>(flat.size()));
  out.raw(flat.begin(), flat.asBytes().size());
}

kj::Array<capnp::word> get_words(decoder& in) {
  const auto count = in.get<std::uint64_t>();
  if (count > in.remaining() / sizeof(capnp::word))
    throw decode_error("a message by a schema claims " + std::to_string(count) + " words with " +
                       std::to_string(in.remaining()) + " bytes left");
  auto words = kj::heapArray<capnp::word>(static_cast<std::size_t>(count));
  in.raw(words.begin(), words.asBytes().size());
  return words;
}

capnp::ReaderOptions limits_for(const kj::Array<capnp::word>& words) {
  capnp::ReaderOptions out;
  out.traversalLimitInWords = 16 * words.size() + 1024;
  return out;
}

void throw_unwritable(const kj::Exception& why) {
  throw encode_error(std::string("a message by a schema cannot be written: ") +
                     why.getDescription().cStr());
}

void throw_unreadable(const kj::Exception& why) {
  throw decode_error(std::string("a message by a schema cannot be read: ") +
                     why.getDescription().cStr());
}

}  // namespace troupe::detail
