#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <type_traits>
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
//
// A value that cannot be encoded (encode_error, or what its type throws) is told to those who would
// get it: they throw remote_error, which names the rank, the rank itself throws its own error, and
// the group goes on.
namespace troupe {

namespace groups {

void broadcast_bytes(const process_group& group, packed_object& object, int src);
std::vector<std::vector<std::byte>> all_gather_bytes(const process_group& group,
                                                     const packed_object& mine);
std::vector<std::vector<std::byte>> gather_bytes(const process_group& group,
                                                 const packed_object& mine, int dst);
std::vector<std::byte> scatter_bytes(const process_group& group, std::vector<packed_object> all,
                                     int src);
void send_bytes(const process_group& group, const packed_object& mine, int dst, int tag);
std::pair<std::vector<std::byte>, int> recv_bytes(const process_group& group, int src, int tag);

template <class T>
packed_object packed(const T& object) {
  return pack_object([&](encoder& out) { out.put(object); });
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

// What `make` returns, and its bytes, or what it throws.
template <class T, class F>
packed_object packed_result(std::optional<T>& made, F& make) {
  return pack_object([&](encoder& out) {
    made.emplace(make());
    out.put(*made);
  });
}

}  // namespace groups

/// `object` becomes that of `src` on all ranks.
template <class T>
void broadcast_object(const process_group& group, T& object, int src) {
  if (!group.member("broadcast_object")) return;
  groups::packed_object mine;
  if (group.rank() == src) mine = groups::packed(object);
  groups::broadcast_bytes(group, mine, src);
  if (group.rank() != src) object = groups::object_of_bytes<T>(mine.bytes);
}

/// What `make()` returns on `src`, on all ranks. If it throws, all throw: `src` that, the others
/// remote_error. Only `src` calls it.
template <class F>
auto broadcast_result(const process_group& group, int src, F&& make) {
  using result = std::decay_t<std::invoke_result_t<F&>>;
  if (!group.member("broadcast_result")) return result{};
  std::optional<result> made;
  groups::packed_object mine;
  if (group.rank() == src) mine = groups::packed_result(made, make);
  groups::broadcast_bytes(group, mine, src);
  return made ? std::move(*made) : groups::object_of_bytes<result>(mine.bytes);
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
  return groups::objects_of_bytes<T>(groups::all_gather_bytes(group, groups::packed(object)));
}

/// What `make()` returns on each rank, in order, on all of them. If it throws anywhere, all throw:
/// the ranks where it has that, the others remote_error, which names those ranks.
template <class F>
auto all_gather_results(const process_group& group, F&& make) {
  using result = std::decay_t<std::invoke_result_t<F&>>;
  if (!group.member("all_gather_results")) return std::vector<result>();
  std::optional<result> made;
  const auto mine = groups::packed_result(made, make);
  return groups::objects_of_bytes<result>(groups::all_gather_bytes(group, mine));
}

/// Those of all ranks, in order, on `dst`; nothing on the others.
template <class T>
std::vector<T> gather_object(const process_group& group, const T& object, int dst) {
  if (!group.member("gather_object")) return {};
  return groups::objects_of_bytes<T>(groups::gather_bytes(group, groups::packed(object), dst));
}

/// Each rank gets one of those that `src` has; the others give none. If `src` has not one for each
/// rank it throws invalid_argument, and the others remote_error.
template <class T>
T scatter_object(const process_group& group, const std::vector<T>& objects, int src) {
  if (!group.member("scatter_object")) return T{};
  std::vector<groups::packed_object> all;
  if (group.rank() == src)
    for (const auto& one : objects) all.push_back(groups::packed(one));
  return groups::object_of_bytes<T>(groups::scatter_bytes(group, std::move(all), src));
}

/// Two messages of that tag.
template <class T>
void send_object(const process_group& group, const T& object, int dst, int tag = 0) {
  if (!group.member("send_object")) return;
  groups::send_bytes(group, groups::packed(object), dst, tag);
}

/// Returns the object and the rank of its sender; on a node that is not in the group, -1.
template <class T>
std::pair<T, int> recv_object(const process_group& group, int src = any_source, int tag = 0) {
  if (!group.member("recv_object")) return {T{}, -1};
  const auto [bytes, from] = groups::recv_bytes(group, src, tag);
  return {groups::object_of_bytes<T>(bytes), from};
}

}  // namespace troupe
