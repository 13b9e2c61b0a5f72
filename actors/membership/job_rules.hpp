#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "troupe/actors/messaging/window.hpp"
#include "troupe/transport/auth/stream_protection.hpp"

namespace troupe {

/// What carries messages between nodes.
enum class backend : std::uint8_t {
  automatic,      ///< shared memory on one host; TCP or, on a trusted network, RDMA between hosts
  shared_memory,  ///< one host only
  tcp,            ///< TCP, whose ends prove that they have the job's secret, also on one host
  ucx,            ///< UCX alone, also between hosts; needs `trusted_network` there
  ucx_tcp,        ///< UCX over TCP, also on one host; needs `trusted_network`
};

/// What becomes of the job when its leader, rank 0 at first, is lost.
enum class leader_loss : std::uint8_t {
  end,    ///< it ends, with peer_lost on every node
  elect,  ///< the others choose another, if they are enough to be sure that they are the job
};

}  // namespace troupe

// The options that must be the same on all nodes of a job. Functions of values, no I/O.
namespace troupe::detail {

struct job_rules {
  backend transport = backend::automatic;
  flow_window window{};
  std::chrono::milliseconds hang_limit{0};
  leader_loss on_leader_loss = leader_loss::end;
  std::string transport_name{};
  transport::stream_protection encryption = transport::stream_protection::authenticate;
};

/// The first that two nodes, described for people, do not have in common, with both values; empty:
/// they agree.
std::string rules_problem(const std::string& one, const job_rules& ours, const std::string& other,
                          const job_rules& theirs);

}  // namespace troupe::detail
