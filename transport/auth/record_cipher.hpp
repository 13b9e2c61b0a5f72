#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "troupe/transport/auth/stream_protection.hpp"

struct evp_cipher_ctx_st;

namespace troupe::transport {

/// Protects the records of one direction of a connection. A record is a head, which anybody may
/// read, and a body, which is encrypted if the protection says so; its tag authenticates both, and
/// its place in the stream: records are numbered from 0, and the number is the nonce. So nothing
/// can be altered, left out, repeated or moved. AES-256-GCM (NIST SP 800-38D), or GMAC, which is
/// the same without a plaintext: small records by libsodium, which needs 0.1 us for one, others by
/// OpenSSL, which needs 0.5 us and is two to three times faster with large ones. A key is used for
/// one direction of one connection, and for 2^64 records at most. A body that follows its head in
/// memory is not copied. For one thread at a time.
class record_cipher {
public:
  static constexpr std::size_t tag_size = 16;
  using tag = std::array<std::byte, tag_size>;
  using key = std::array<std::byte, 32>;

  /// Throws transport_error if the library cannot be used.
  record_cipher(stream_protection how, const key& k);
  ~record_cipher();
  record_cipher(const record_cipher&) = delete;
  record_cipher& operator=(const record_cipher&) = delete;

  /// Bytes of a tag on the wire: 0 without protection.
  std::size_t overhead() const noexcept { return how_ == stream_protection::off ? 0 : tag_size; }
  bool encrypts() const noexcept { return how_ == stream_protection::encrypt; }

  /// Protects the next record. `sealed` gets the ciphertext, as long as `body`, if it `encrypts`;
  /// it may be `body` itself. Throws transport_error.
  void seal(std::span<const std::byte> head, std::span<const std::byte> body, std::byte* sealed,
            tag& out);

  /// The same for a body that others may change meanwhile: what is protected is its copy, in
  /// `copy`, which has as many bytes. Nothing without protection.
  void seal_copy(std::span<const std::byte> head, std::span<const std::byte> body, std::byte* copy,
                 tag& out);

  /// Opens the next record: `body` is decrypted in place. False: it is not what the other end has
  /// sent at this place, and `body` is worth nothing. Throws transport_error.
  [[nodiscard]] bool open(std::span<const std::byte> head, std::span<std::byte> body,
                          std::span<const std::byte, tag_size> given);

private:
  struct free_context {
    void operator()(evp_cipher_ctx_st* one) const noexcept;
  };
  struct small_cipher;
  struct free_small {
    void operator()(small_cipher* one) const noexcept;
  };

  std::array<unsigned char, 12> next_nonce() noexcept;
  void begin(bool sealing);
  void finish_sealing(tag& out);
  bool is_small(std::size_t head, std::size_t body) const noexcept;

  const stream_protection how_;
  std::unique_ptr<evp_cipher_ctx_st, free_context> context_;  // null: off
  std::unique_ptr<small_cipher, free_small> small_;           // null: off, or not on this machine
  key key_;
  std::uint64_t number_ = 0;
  bool keyed_ = false;
};

}  // namespace troupe::transport
