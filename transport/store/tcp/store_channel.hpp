#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "troupe/transport/auth/record_cipher.hpp"
#include "troupe/transport/store/store.hpp"
#include "troupe/transport/store/tcp/store_handshake.hpp"
#include "troupe/transport/system/unique_fd.hpp"

namespace troupe::transport {

/// What client and server of a store say once both have proved that they have the secret: messages,
/// each a length in 4 bytes, the encrypted message and a tag (AEGIS-128X2). Messages are numbered
/// in each direction, so that nothing can be altered, left out, repeated or moved. For one thread
/// at a time.
class store_channel {
public:
  enum class side { client, server };

  static constexpr std::size_t length_size = sizeof(std::uint32_t);
  static constexpr std::size_t tag_size = record_cipher::tag_size;

  store_channel(const store_handshake::keys& keys, side here);

  /// The next message as it is sent. Pre: `message` is not empty and fits in 4 GiB.
  store::bytes seal(std::span<const std::byte> message);

  /// Opens the next message in place: `sealed` is what follows its length. Nothing: it is not what
  /// the other side has sent.
  std::optional<std::span<const std::byte>> open(std::span<std::byte> sealed);

private:
  record_cipher sealing_;
  record_cipher opening_;
};

/// A client's connection to a store.
struct store_link {
  unique_fd fd;  ///< none: there is no connection
  std::unique_ptr<store_channel> channel;
  store_handshake::nonce server{};  ///< its number
};

}  // namespace troupe::transport
