#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// The values that a rendezvous keeps in its store; messages/schema/store.capnp explains the
/// fields. The decoders throw decode_error.
struct job_description {
  std::string job;
  std::uint32_t world_size = 0;
  std::uint64_t nonce = 0;
  std::string writer;
  bool dynamic = false;
};

struct announcement {
  std::string name;
  std::string host;
  std::string host_id;
  std::uint64_t process = 0;
  std::uint64_t incarnation = 0;
  std::uint64_t visit = 0;
  std::uint64_t process_namespace = 0;
};

struct verdict {
  std::string failure;
  std::vector<store::bytes> values;
};

store::bytes encode(const job_description& value);
store::bytes encode(const announcement& value);
store::bytes encode(const verdict& value);

job_description decode_job_description(const store::bytes& bytes);
announcement decode_announcement(const store::bytes& bytes);
verdict decode_verdict(const store::bytes& bytes);

/// The error of a node that joins a job with fixed members, and of all ranks of a job with mixed
/// ranks.
inline constexpr const char* mixed_job_text =
    "RPC group mixes statically and dynamically initialized members which is not supported.";

/// "process 4242 on host x", for messages.
std::string describe_process(const std::string& host, std::uint64_t process);

}  // namespace troupe::transport
