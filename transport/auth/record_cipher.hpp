#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "troupe/transport/auth/stream_protection.hpp"

namespace troupe::transport {

/// Protects the records of one direction of a connection. A record is a head, which anybody may
/// read, and a body, which is encrypted if the protection says so; its tag authenticates both, and
/// its place in the stream: records are numbered from 0, and the number is in the nonce. So nothing
/// can be altered, left out, repeated or moved. AEGIS-128X2 by libaegis
/// (draft-irtf-cfrg-aegis-aead), or AEGISMAC of it, which hides nothing: with the processor's AES
/// instructions several times faster than AES-256-GCM. Brief records that are not encrypted are the
/// associated data of an empty message of AEGIS-128L, which takes less than half of the time of a
/// MAC. The first 16 bytes of the key are the cipher's; a record's nonce is the others, of which
/// the first 8 are combined with its number (exclusive or). A key is used for one direction of one
/// connection, with one protection, and for 2^64 records at most. For one thread at a time.
class record_cipher {
public:
  static constexpr std::size_t tag_size = 16;
  static constexpr std::size_t most_brief = 512;  ///< bytes of head and body
  using tag = std::array<std::byte, tag_size>;
  using key = std::array<std::byte, 32>;

  record_cipher(stream_protection how, const key& k);
  ~record_cipher();
  record_cipher(const record_cipher&) = delete;
  record_cipher& operator=(const record_cipher&) = delete;

  /// Bytes of a tag on the wire: 0 without protection.
  std::size_t overhead() const noexcept { return how_ == stream_protection::off ? 0 : tag_size; }
  bool encrypts() const noexcept { return how_ == stream_protection::encrypt; }

  /// Protects the next record. `sealed` gets the ciphertext, as long as `body`, if it `encrypts`;
  /// it may be `body` itself.
  void seal(std::span<const std::byte> head, std::span<const std::byte> body, std::byte* sealed,
            tag& out) noexcept;

  /// The same for a body that others may change meanwhile: what is protected is its copy, in
  /// `copy`, which has as many bytes. Nothing without protection.
  void seal_copy(std::span<const std::byte> head, std::span<const std::byte> body, std::byte* copy,
                 tag& out) noexcept;

  /// Opens the next record: `body` is decrypted in place. False: it is not what the other end has
  /// sent at this place, and `body` is worth nothing.
  [[nodiscard]] bool open(std::span<const std::byte> head, std::span<std::byte> body,
                          std::span<const std::byte, tag_size> given) noexcept;

private:
  using bytes16 = std::array<std::uint8_t, 16>;

  bytes16 next_nonce() noexcept;

  const stream_protection how_;
  bytes16 key_, added_;
  std::uint64_t number_ = 0;
};

}  // namespace troupe::transport
