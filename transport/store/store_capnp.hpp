#pragma once

#include <capnp/message.h>
#include <capnp/serialize.h>
#include <kj/exception.h>

#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// `message` as bytes.
inline store::bytes flatten(capnp::MessageBuilder& message) {
  const auto words = capnp::messageToFlatArray(message);
  const auto bytes = words.asBytes();
  const auto* data = reinterpret_cast<const std::byte*>(bytes.begin());
  return {data, data + bytes.size()};
}

inline capnp::Data::Reader as_data(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const kj::byte*>(bytes.data()), bytes.size()};
}

inline capnp::Data::Reader as_data(const std::string& text) {
  return as_data(std::as_bytes(std::span(text)));
}

inline std::span<const std::byte> as_bytes(capnp::Data::Reader data) {
  return {reinterpret_cast<const std::byte*>(data.begin()), data.size()};
}

inline capnp::Text::Reader as_text(const std::string& text) { return {text.c_str(), text.size()}; }

inline std::string to_string(capnp::Text::Reader text) { return {text.begin(), text.size()}; }

/// Reads `bytes` as a message whose root is `Root` and returns `use(root)`. Every part can be read
/// about once, so pointers that share a target gain nothing. Throws decode_error naming `what` for
/// bytes that are no such message.
template <class Root, class Use>
auto read_message(std::span<const std::byte> bytes, const char* what, Use&& use) {
  constexpr std::size_t word = sizeof(capnp::word);
  if (bytes.empty() || bytes.size() % word != 0)
    throw decode_error(std::string(what) + " has a length that no message has");
  // The reader needs aligned words; these bytes need not be aligned.
  auto words = kj::heapArray<capnp::word>(bytes.size() / word);
  std::memcpy(words.begin(), bytes.data(), bytes.size());
  capnp::ReaderOptions options;
  options.traversalLimitInWords = 2 * words.size() + 64;
  options.nestingLimit = 8;
  try {
    capnp::FlatArrayMessageReader reader(words, options);
    return std::forward<Use>(use)(reader.getRoot<Root>());
  } catch (const kj::Exception& e) {
    throw decode_error(std::string(what) + " cannot be read: " + e.getDescription().cStr());
  }
}

}  // namespace troupe::transport
