#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/regions/region_address.hpp"

namespace troupe::transport {

/// Why a descriptor was not handed out. The values travel; append, never reorder.
enum class refusal_cause : std::uint16_t {
  other_user = 1,  ///< the process belongs to another user
  busy,            ///< it had proved nothing, and others came
  malformed,       ///< no message of this protocol
  other_version,
  other_region,  ///< it wants a region that is not served here
  no_secret,     ///< its proof is wrong
  too_slow,      ///< it took too long
  left,          ///< it closed the connection
  not_sent,      ///< the system did not pass the descriptor on
  read_only,     ///< it wants to write, and the memory is served for reading only
};
inline constexpr std::size_t refusal_causes = 10;

/// A clause for a person: "it belongs to another user".
const char* to_string(refusal_cause why) noexcept;

/// How the two ends of a connection prove to each other that they have the job's secret, before one
/// hands a descriptor to the other.
///
/// Packets of fixed and different sizes:
///
///     client -> server   hello      magic, version, access, region's id, client's challenge (56
///     bytes) server -> client   challenge  server's challenge (32), proof (32) client -> server
///     answer     proof (32) server -> client   grant      region's id, size (24), and the
///     descriptor beside it
///
/// or, instead of the server's packets, a refusal (8). A proof is the MAC, under a key of this
/// protocol alone, of the role of its sender, the access, the whole region_address and both
/// challenges. So nothing can be reflected (the roles differ), replayed (both challenges are fresh)
/// or relayed from another server (the names of the sockets differ). A refusal is not proven: it
/// tells what went wrong, and can do no more than a closed connection.
class descriptor_handshake {
public:
  using challenge_bytes = std::array<std::byte, 32>;

  struct hello {
    std::uint32_t magic;
    std::uint16_t version;
    region_access access;
    std::array<std::byte, 16> id;
    challenge_bytes challenge;
  };
  struct challenge {
    challenge_bytes bytes;
    job_secret::mac proof;
  };
  struct answer {
    job_secret::mac proof;
  };
  struct grant {
    std::array<std::byte, 16> id;
    std::uint64_t size;
  };
  struct refusal {
    std::uint32_t magic;
    std::uint16_t version;
    refusal_cause why;
  };
  static_assert(sizeof(hello) == 56 && sizeof(challenge) == 64 && sizeof(answer) == 32 &&
                sizeof(grant) == 24 && sizeof(refusal) == 8);

  /// The key of this protocol; the secret's subkey.
  static job_secret key(const job_secret& secret);

  static refusal refuse(refusal_cause why) noexcept;
  /// Does it say something that this version understands?
  static bool is_refusal(const refusal& in) noexcept;

  /// One object for each connection.
  descriptor_handshake(const job_secret& key, const region_address& region);

  /// Client: the first packet, which says what it wants.
  hello greet(region_access wanted = region_access::read);
  /// Server: is this a hello to this region? `why` says why not.
  bool read(const hello& in, refusal_cause& why) noexcept;
  /// Server: its answer to the hello.
  challenge respond();
  /// Client: has the server the secret? `out` is the answer then.
  bool meet(const challenge& in, answer& out);
  /// Server: has the client the secret?
  bool admit(const answer& in) const noexcept;

  /// What the client wants; known once the hello is.
  region_access wanted() const noexcept { return said_.wanted; }

private:
  // What both ends know once the challenges are exchanged; the role comes first.
  struct transcript {
    std::array<std::byte, 6> role{};
    region_access wanted{};
    region_address region;
    challenge_bytes client{};
    challenge_bytes server{};
  };
  static_assert(sizeof(transcript) == 8 + 56 + 64);

  transcript said_by(std::uint8_t role) const noexcept;

  job_secret key_;
  transcript said_;
};

}  // namespace troupe::transport
