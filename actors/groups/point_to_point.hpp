#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "troupe/actors/groups/collectives.hpp"
#include "troupe/actors/groups/network/packet.hpp"

// Messages between two ranks of a process group. They pass the group's collectives. Those of one
// sender, receiver and tag arrive in the order in which they were sent. A node that is not in the
// group does nothing.
namespace troupe {

/// The source of a receive that takes a message of any rank.
inline constexpr int any_source = groups::any_source;

/// Sends the elements to `dst`; returns when the tensor may be written again, which may be before
/// the message is received. Throws invalid_argument for this rank itself ("Invalid destination
/// rank: destination rank should not be the same as the rank of the current process."), and what
/// collectives throw.
void send(const process_group& group, const at::Tensor& tensor, int dst, int tag = 0);
work isend(const process_group& group, const at::Tensor& tensor, int dst, int tag = 0);

/// Receives a message of `src`, or of any rank, into the tensor, which has its dtype and as many
/// elements; otherwise, and where an object comes, collective_mismatch is thrown here, and the
/// message is lost. Returns the sender's rank; -1 on a node that is not in the group.
int recv(const process_group& group, const at::Tensor& tensor, int src = any_source, int tag = 0);
work irecv(const process_group& group, const at::Tensor& tensor, int src = any_source, int tag = 0);

/// One of a batch.
struct p2p_op {
  enum class direction : std::uint8_t { isend, irecv };

  direction op = direction::isend;
  at::Tensor tensor;
  int peer = 0;
  process_group group{};
  int tag = 0;
};

/// Starts all of them together, in whatever order they are given: neither waits for another. One
/// work for each, in that order. Throws invalid_argument: "Invalid ``op``", "Invalid
/// ``p2p_op_list``" if there is none, "All ops need to use the same group."
std::vector<work> batch_isend_irecv(const std::vector<p2p_op>& p2p_op_list);

namespace groups {

/// The bytes of an object as one message: a row of bytes on the CPU, which nobody writes any more.
void send_object_bytes(const process_group& group, const at::Tensor& bytes, int dst, int tag);
/// Those that come next, however many, and the rank of their sender. Throws collective_mismatch if
/// a tensor comes, which is lost.
std::pair<network::packet, int> recv_object_bytes(const process_group& group, int src, int tag);

}  // namespace groups

}  // namespace troupe
