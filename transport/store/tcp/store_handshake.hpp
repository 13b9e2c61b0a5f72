#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/auth/record_cipher.hpp"

namespace troupe::transport {

/// The handshake by which client and server of a store prove to each other that they have the job's
/// secret.
///
/// Three messages of fixed length, so that nothing is decoded before the proof:
///
///     client -> server   greeting   magic and version (8 bytes), client nonce (32)
///     server -> client   challenge  magic and version (8), server nonce (32), the server's number
///                                   (32), server proof (32)
///     client -> server   answer     client proof (32)
///
/// A proof is the MAC, under a key of this protocol alone, of the role of its sender, the version,
/// both nonces and the number, which each server draws as it starts: it cannot be replayed (fresh
/// nonces) nor reflected (the roles differ). What follows on the connection is encrypted, under
/// keys that are MACs of the same (store_channel.hpp): whoever relays the handshake can neither
/// read nor alter it. This is the pattern of a mutual challenge and response with derived keys; see
/// Bellare and Rogaway, "Entity authentication and key distribution" (CRYPTO '93), protocols MAP1
/// and AKEP2.
class store_handshake {
public:
  static constexpr std::size_t nonce_size = 32;
  static constexpr std::size_t magic_size = 8;
  static constexpr std::uint8_t version = 5;

  using nonce = std::array<std::byte, nonce_size>;
  using greeting = std::array<std::byte, magic_size + nonce_size>;
  using challenge =
      std::array<std::byte, magic_size + 2 * nonce_size + std::tuple_size_v<job_secret::mac>>;
  using answer = job_secret::mac;

  /// `secret` is the job's; one object for each connection. Server: `number` is its own.
  explicit store_handshake(const job_secret& secret, const nonce& number = {});

  /// Client: the first message.
  greeting greet() const;

  enum class verdict { accepted, not_troupe, other_version, wrong_secret };

  /// How `in` begins, which is `magic_size` bytes or more: whether another end of this version has
  /// sent it.
  verdict check_magic(std::span<const std::byte> in) const;

  /// Server: checks the greeting. `out` is the answer, to another version no more than this one's.
  verdict accept(std::span<const std::byte, sizeof(greeting)> in, challenge& out);

  /// Client: checks the server's proof. If accepted, `out` is the answer.
  verdict meet(std::span<const std::byte, sizeof(challenge)> in, answer& out);

  /// Server: whether the client's proof is right.
  bool admit(std::span<const std::byte, sizeof(answer)> in) const;

  /// Which server it is, once its proof was right.
  const nonce& server_number() const noexcept { return number_; }

  /// Of this connection, once the other side's proof was right.
  struct keys {
    record_cipher::key from_client;
    record_cipher::key from_server;
  };
  keys session() const;

private:
  using transcribed = std::array<std::byte, 2 + 3 * nonce_size>;
  transcribed transcript(std::uint8_t role) const;

  job_secret key_;
  nonce client_{};
  nonce server_{};
  nonce number_;
};

}  // namespace troupe::transport
