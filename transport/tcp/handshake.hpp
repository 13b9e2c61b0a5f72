#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/auth/key_agreement.hpp"
#include "troupe/transport/auth/record_cipher.hpp"
#include "troupe/transport/tcp/tcp_transport.hpp"

namespace troupe::transport::tcp {

/// Identifies a transport object, unique among all that ever exist.
using nonce = std::array<std::byte, 16>;

/// What a connection carries.
enum class stream_kind : std::uint8_t { messages, bulk };

/// The two nodes of a connection, and its kind. All of it is proven.
struct stream_claim {
  rank_t from = 0;  ///< the node that connects
  rank_t to = 0;
  nonce from_id{};
  nonce to_id{};
  stream_kind kind = stream_kind::messages;
  stream_protection protection = stream_protection::off;
  /// Bulk: the connection for messages (stream_keys::connection) that it belongs to.
  nonce beside{};

  friend bool operator==(const stream_claim&, const stream_claim&) = default;
};

/// Keys of one connection, for the records of each direction.
struct stream_keys {
  using key = record_cipher::key;
  key from_dialer{};
  key from_listener{};
  nonce connection{};  ///< names the connection; no secret

  /// Wipes them.
  ~stream_keys();
};

/// The handshake by which the two ends of a connection prove to each other that they have the job's
/// secret, and which nodes they are.
///
/// Three messages of fixed length, so that nothing is decoded before the proof:
///
///     dialer   -> listener   hello      claim (64 bytes), dialer's challenge (32), proof (32)
///     listener -> dialer     challenge  listener's challenge (32), proof (32)
///     dialer   -> listener   answer     proof (32)
///
/// A proof is the MAC (HMAC-SHA-512-256), under a key of this protocol alone, of the role of its
/// sender and all that was said before. The hello's proof keeps strangers from anything but a
/// closed connection; whoever replays one cannot go on, since the answer depends on the listener's
/// fresh challenge. Nothing can be reflected, since the roles differ. This is the pattern of a
/// mutual challenge and response; see Bellare and Rogaway, "Entity authentication and key
/// distribution" (CRYPTO '93), protocol MAP1.
///
/// The challenges are at once the halves of a key agreement (X25519). The keys of the records are
/// MACs, under the agreed key, of MACs of the transcript: those of two connections are never the
/// same, and who learns the job's secret later cannot compute them from what was recorded (forward
/// secrecy).
class handshake {
public:
  static constexpr std::size_t claim_size = 64;
  static constexpr std::size_t challenge_size = 32;
  static constexpr std::size_t proof_size = 32;

  using hello = std::array<std::byte, claim_size + challenge_size + proof_size>;
  using challenge = std::array<std::byte, challenge_size + proof_size>;
  using answer = std::array<std::byte, proof_size>;

  /// One object for each connection. `secret` is the transport's.
  explicit handshake(const job_secret& secret);

  /// Dialer: the first message, for what it `claims`.
  hello greet(const stream_claim& claims);

  /// Listener: what the dialer claims; nothing unless the hello is of this version and was made
  /// with the secret. It is not known to be fresh before `admit`.
  std::optional<stream_claim> read(std::span<const std::byte, sizeof(hello)> in);

  /// Listener: its answer to the hello.
  challenge respond();

  /// Dialer: has the listener the secret? `out` is the last message then.
  bool meet(std::span<const std::byte, sizeof(challenge)> in, answer& out);

  /// Listener: has the dialer the secret?
  bool admit(std::span<const std::byte, sizeof(answer)> in);

  /// Once the other end has proved itself.
  stream_keys keys() const;

private:
  // What was said up to the listener's challenge, without the proofs.
  using transcript = std::array<std::byte, claim_size + 2 * challenge_size>;

  job_secret::mac prove(std::uint8_t role, std::size_t said) const;
  bool agree(std::size_t others_challenge);

  job_secret key_;
  key_agreement exchange_;
  std::optional<job_secret> agreed_;  // once the other end has proved itself
  transcript said_{};
};

}  // namespace troupe::transport::tcp
