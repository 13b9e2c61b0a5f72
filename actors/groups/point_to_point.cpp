#include "troupe/actors/groups/point_to_point.hpp"

#include <ATen/core/Tensor.h>
#include <fmt/format.h>

#include <utility>

#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe {

namespace {

using groups::group_core;
using groups::operation_kind;
using groups::prepared_call;

void check_peer(const group_core& group, int peer, const char* role) {
  if (peer == group.rank())
    throw invalid_argument(fmt::format(
        "Invalid {} rank: {} rank should not be the same as the rank of the current process.", role,
        role));
  if (peer < 0 || peer >= group.size())
    throw invalid_argument(
        fmt::format("Group rank {} is not part of group {}", peer, group.about().name));
}

prepared_call send_call(const group_core& group, const at::Tensor& tensor, int dst, int tag) {
  check_peer(group, dst, "destination");
  prepared_call out(operation_kind::send);
  out.input(tensor);
  out.what().peer = dst;
  out.what().tag = tag;
  return out;
}

prepared_call receive_call(const group_core& group, const at::Tensor& tensor, int src, int tag) {
  if (src != any_source) check_peer(group, src, "source");
  prepared_call out(operation_kind::recv);
  out.output(tensor);
  out.what().peer = src;
  out.what().tag = tag;
  return out;
}

}  // namespace

void send(const process_group& group, const at::Tensor& tensor, int dst, int tag) {
  auto* const in = group.member("send");
  if (!in) return;
  auto call = send_call(*in, tensor, dst, tag);
  in->send(call);
}

work isend(const process_group& group, const at::Tensor& tensor, int dst, int tag) {
  auto* const in = group.member("isend");
  if (!in) return work();
  auto call = send_call(*in, tensor, dst, tag);
  return in->start_send(call);
}

int recv(const process_group& group, const at::Tensor& tensor, int src, int tag) {
  auto* const in = group.member("recv");
  if (!in) return -1;
  auto call = receive_call(*in, tensor, src, tag);
  return in->receive(call);
}

work irecv(const process_group& group, const at::Tensor& tensor, int src, int tag) {
  auto* const in = group.member("irecv");
  if (!in) return work();
  return in->start_receive(receive_call(*in, tensor, src, tag));
}

std::vector<work> batch_isend_irecv(const std::vector<p2p_op>& p2p_op_list) {
  if (p2p_op_list.empty())
    throw invalid_argument("Invalid ``p2p_op_list``. It is expected to have one p2p_op or more.");
  const auto& group = p2p_op_list.front().group;
  for (const auto& one : p2p_op_list) {
    if (one.op != p2p_op::direction::isend && one.op != p2p_op::direction::irecv)
      throw invalid_argument("Invalid ``op``. Expected ``op`` to be isend or irecv.");
    if (one.group != group) throw invalid_argument("All ops need to use the same group.");
  }
  // All arguments are looked at before the first one begins.
  auto* const in = group.member("batch_isend_irecv");
  std::vector<work> out(p2p_op_list.size());
  if (!in) return out;
  std::vector<prepared_call> calls;
  for (const auto& one : p2p_op_list)
    calls.push_back(one.op == p2p_op::direction::isend
                        ? send_call(*in, one.tensor, one.peer, one.tag)
                        : receive_call(*in, one.tensor, one.peer, one.tag));
  // Those on streams of a device go together.
  std::vector<prepared_call> together;
  std::vector<std::size_t> places;
  std::vector<bool> done(calls.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!in->stream_backend_for(calls[i].bind())) continue;
    together.push_back(std::move(calls[i]));
    places.push_back(i);
    done[i] = true;
  }
  // Receives first: no message finds its place missing.
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!done[i] && p2p_op_list[i].op == p2p_op::direction::irecv)
      out[i] = in->start_receive(std::move(calls[i]));
  for (std::size_t i = 0; i < out.size(); ++i)
    if (!done[i] && p2p_op_list[i].op == p2p_op::direction::isend)
      out[i] = in->start_send(calls[i]);
  if (together.empty()) return out;
  const auto started = in->start_batch(std::move(together));
  for (std::size_t i = 0; i < places.size(); ++i) out[places[i]] = started[i];
  return out;
}

namespace groups {

void send_object_bytes(const process_group& group, const at::Tensor& bytes, int dst, int tag) {
  auto* const in = group.member("send_object");
  if (!in) return;
  auto call = send_call(*in, bytes, dst, tag);
  call.what().dtype = c10::ScalarType::Undefined;
  in->send(call);
}

std::pair<network::packet, int> recv_object_bytes(const process_group& group, int src, int tag) {
  auto* const in = group.member("recv_object");
  if (!in) return {{}, -1};
  if (src != any_source) check_peer(*in, src, "source");
  prepared_call call(operation_kind::recv);
  call.what().peer = src;
  call.what().tag = tag;
  auto mail = in->receive_object(call);
  return {std::move(mail.content), mail.from};
}

}  // namespace groups

}  // namespace troupe
