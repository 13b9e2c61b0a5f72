#include "troupe/transport/store/tcp/store_channel.hpp"

#include <cstring>

namespace troupe::transport {

namespace {

std::array<std::byte, store_channel::length_size> length_of(std::size_t size) {
  const auto length = static_cast<std::uint32_t>(size);
  std::array<std::byte, store_channel::length_size> out;
  std::memcpy(out.data(), &length, sizeof length);
  return out;
}

}  // namespace

store_channel::store_channel(const store_handshake::keys& keys, side here)
    : sealing_(stream_protection::encrypt,
               here == side::client ? keys.from_client : keys.from_server),
      opening_(stream_protection::encrypt,
               here == side::client ? keys.from_server : keys.from_client) {}

store::bytes store_channel::seal(std::span<const std::byte> message) {
  const auto head = length_of(message.size());
  store::bytes out(head.size() + message.size() + tag_size);
  std::memcpy(out.data(), head.data(), head.size());
  record_cipher::tag tag;
  sealing_.seal(head, message, out.data() + head.size(), tag);
  std::memcpy(out.data() + head.size() + message.size(), tag.data(), tag.size());
  return out;
}

std::optional<std::span<const std::byte>> store_channel::open(std::span<std::byte> sealed) {
  if (sealed.size() < tag_size) return std::nullopt;
  const auto message = sealed.first(sealed.size() - tag_size);
  const auto head = length_of(message.size());
  if (!opening_.open(head, message, sealed.last<tag_size>())) return std::nullopt;
  return message;
}

}  // namespace troupe::transport
