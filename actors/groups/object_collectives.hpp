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
#include "troupe/messages/codec/type_registration.hpp"

// Collectives of values of any type that can be sent (TROUPE_MESSAGE, docs/programming.md), of
// another size on each rank. Each collective is two, of sizes and of bytes: they cost more than
// those of tensors. Tensors in the values arrive in host memory. All ranks name the same type;
// decode_error is thrown where what has come is of another one, and type_mismatch where that type
// has other fields on the rank that has sent it. On a node that is not in the group they do
// nothing.
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
void send_bytes(const process_group& group, packed_object mine, int dst, int tag);
std::pair<network::packet, int> recv_bytes(const process_group& group, int src, int tag);

// Throws collective_mismatch.
void check_length(const char* operation, std::size_t mine, int from, std::size_t found);

// Integers of one size and sign are one type, as in messages.
template <class T>
object_type type_of_object() {
  using same = typename troupe::detail::canonical<T>::type;
  return {type_identity<same>(), type_name<same>(), &troupe::detail::structure<same>::text};
}

template <class T>
packed_object packed(const T& object) {
  return pack_object(type_of_object<T>(), [&](encoder& out) { out.put(object); });
}

template <class T>
T object_of_bytes(std::span<const std::byte> bytes, int from, int to) {
  T out{};
  bytes_to_object(bytes, type_of_object<T>(), from, to, [&](decoder& in) { in.get_into(out); });
  return out;
}

template <class T>
std::vector<T> objects_of_bytes(const std::vector<std::vector<std::byte>>& all, int to) {
  std::vector<T> out;
  for (std::size_t from = 0; from < all.size(); ++from)
    out.push_back(object_of_bytes<T>(all[from], static_cast<int>(from), to));
  return out;
}

// What `make` returns, and its bytes, or what it throws.
template <class T, class F>
packed_object packed_result(std::optional<T>& made, F& make) {
  return pack_object(type_of_object<T>(), [&](encoder& out) {
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
  if (group.rank() != src) object = groups::object_of_bytes<T>(mine.bytes, src, group.rank());
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
  return made ? std::move(*made) : groups::object_of_bytes<result>(mine.bytes, src, group.rank());
}

/// The same for several, of which all ranks have as many. A rank with another number than the
/// source throws collective_mismatch, and its list has its values still.
template <class T>
void broadcast_object_list(const process_group& group, std::vector<T>& object_list, int src) {
  if (!group.member("broadcast_object_list")) return;
  if (group.rank() == src) return broadcast_object(group, object_list, src);
  std::vector<T> found;
  broadcast_object(group, found, src);
  groups::check_length("broadcast_object_list", object_list.size(), src, found.size());
  object_list = std::move(found);
}

/// Those of all ranks, in order.
template <class T>
std::vector<T> all_gather_object(const process_group& group, const T& object) {
  if (!group.member("all_gather_object")) return {};
  return groups::objects_of_bytes<T>(groups::all_gather_bytes(group, groups::packed(object)),
                                     group.rank());
}

/// What `make()` returns on each rank, in order, on all of them. If it throws anywhere, all throw:
/// the ranks where it has that, the others remote_error, which names those ranks.
template <class F>
auto all_gather_results(const process_group& group, F&& make) {
  using result = std::decay_t<std::invoke_result_t<F&>>;
  if (!group.member("all_gather_results")) return std::vector<result>();
  std::optional<result> made;
  const auto mine = groups::packed_result(made, make);
  return groups::objects_of_bytes<result>(groups::all_gather_bytes(group, mine), group.rank());
}

/// Those of all ranks, in order, on `dst`; nothing on the others.
template <class T>
std::vector<T> gather_object(const process_group& group, const T& object, int dst) {
  if (!group.member("gather_object")) return {};
  return groups::objects_of_bytes<T>(groups::gather_bytes(group, groups::packed(object), dst),
                                     group.rank());
}

/// Each rank gets one of those that `src` has; the others give none. If `src` has not one for each
/// rank it throws invalid_argument, and the others remote_error.
template <class T>
T scatter_object(const process_group& group, const std::vector<T>& objects, int src) {
  if (!group.member("scatter_object")) return T{};
  std::vector<groups::packed_object> all;
  if (group.rank() == src)
    for (const auto& one : objects) all.push_back(groups::packed(one));
  return groups::object_of_bytes<T>(groups::scatter_bytes(group, std::move(all), src), src,
                                    group.rank());
}

/// One message of that tag, of any size: threads that send or receive with the same tag at once get
/// whole objects.
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
  return {groups::object_of_bytes<T>(bytes.bytes(), from, group.rank()), from};
}

/// Sends all of a list as one message, to a recv_object_list.
template <class T>
void send_object_list(const process_group& group, const std::vector<T>& object_list, int dst,
                      int tag = 0) {
  if (!group.member("send_object_list")) return;
  send_object(group, object_list, dst, tag);
}

/// The list gets the objects of one that was sent, which has as many. Returns the rank of the
/// sender; on a node that is not in the group, -1. If the lengths differ collective_mismatch is
/// thrown here and the message is lost; after any error the list has its values still.
template <class T>
int recv_object_list(const process_group& group, std::vector<T>& object_list, int src = any_source,
                     int tag = 0) {
  if (!group.member("recv_object_list")) return -1;
  auto [found, from] = recv_object<std::vector<T>>(group, src, tag);
  groups::check_length("recv_object_list", object_list.size(), from, found.size());
  object_list = std::move(found);
  return from;
}

}  // namespace troupe
