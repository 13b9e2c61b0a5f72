#pragma once

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "troupe/actors/groups/object_bytes.hpp"
#include "troupe/actors/groups/point_to_point.hpp"
#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"

// Collectives of values of any type that can be sent (TROUPE_MESSAGE, docs/programming.md), of
// another size on each rank. Each is two collectives, of sizes and of bytes: they cost more than
// those of tensors. Tensors in the values arrive in host memory. All ranks name the same type;
// decode_error is thrown where what has come is of another one. On a node that is not in the group
// they do nothing.
namespace troupe {

namespace groups {

void broadcast_bytes(const process_group& group, std::vector<std::byte>& bytes, int src);
std::vector<std::vector<std::byte>> all_gather_bytes(const process_group& group,
                                                     std::span<const std::byte> mine);
std::vector<std::vector<std::byte>> gather_bytes(const process_group& group,
                                                 std::span<const std::byte> mine, int dst);
std::vector<std::byte> scatter_bytes(const process_group& group,
                                     const std::vector<std::vector<std::byte>>& all, int src);
void send_bytes(const process_group& group, std::span<const std::byte> bytes, int dst, int tag);
std::pair<std::vector<std::byte>, int> recv_bytes(const process_group& group, int src, int tag);

template <class T>
std::vector<std::byte> bytes_of_object(const T& object) {
  return object_to_bytes([&](encoder& out) { out.put(object); });
}

template <class T>
T object_of_bytes(std::span<const std::byte> bytes) {
  T out{};
  bytes_to_object(bytes, [&](decoder& in) { in.get_into(out); });
  return out;
}

template <class T>
std::vector<T> objects_of_bytes(const std::vector<std::vector<std::byte>>& all) {
  std::vector<T> out;
  for (const auto& one : all) out.push_back(object_of_bytes<T>(one));
  return out;
}

}  // namespace groups

/// `object` becomes that of `src` on all ranks.
template <class T>
void broadcast_object(const process_group& group, T& object, int src) {
  if (!group.member("broadcast_object")) return;
  std::vector<std::byte> bytes;
  if (group.rank() == src) bytes = groups::bytes_of_object(object);
  groups::broadcast_bytes(group, bytes, src);
  if (group.rank() != src) object = groups::object_of_bytes<T>(bytes);
}

/// The same for several, of which all ranks have as many.
template <class T>
void broadcast_object_list(const process_group& group, std::vector<T>& object_list, int src) {
  const auto count = object_list.size();
  broadcast_object(group, object_list, src);
  if (object_list.size() != count)
    throw collective_mismatch("broadcast_object_list: this rank has " + std::to_string(count) +
                              " objects, the source " + std::to_string(object_list.size()));
}

/// Those of all ranks, in order.
template <class T>
std::vector<T> all_gather_object(const process_group& group, const T& object) {
  if (!group.member("all_gather_object")) return {};
  return groups::objects_of_bytes<T>(
      groups::all_gather_bytes(group, groups::bytes_of_object(object)));
}

/// Those of all ranks, in order, on `dst`; nothing on the others.
template <class T>
std::vector<T> gather_object(const process_group& group, const T& object, int dst) {
  if (!group.member("gather_object")) return {};
  return groups::objects_of_bytes<T>(
      groups::gather_bytes(group, groups::bytes_of_object(object), dst));
}

/// Each rank gets one of those that `src` has; the others give none. Throws invalid_argument if
/// `src` has not one for each rank.
template <class T>
T scatter_object(const process_group& group, const std::vector<T>& objects, int src) {
  if (!group.member("scatter_object")) return T{};
  std::vector<std::vector<std::byte>> all;
  if (group.rank() == src)
    for (const auto& one : objects) all.push_back(groups::bytes_of_object(one));
  return groups::object_of_bytes<T>(groups::scatter_bytes(group, all, src));
}

/// Two messages of that tag.
template <class T>
void send_object(const process_group& group, const T& object, int dst, int tag = 0) {
  if (!group.member("send_object")) return;
  groups::send_bytes(group, groups::bytes_of_object(object), dst, tag);
}

/// Returns the object and the rank of its sender; on a node that is not in the group, -1.
template <class T>
std::pair<T, int> recv_object(const process_group& group, int src = any_source, int tag = 0) {
  if (!group.member("recv_object")) return {T{}, -1};
  const auto [bytes, from] = groups::recv_bytes(group, src, tag);
  return {groups::object_of_bytes<T>(bytes), from};
}

}  // namespace troupe
