#include "troupe/actors/groups/network/packet.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

#include "troupe/messages/codec/decoder.hpp"
#include "troupe/messages/codec/encoder.hpp"

namespace troupe::groups::network {

at::Tensor byte_buffer(std::size_t size) {
  return at::empty({static_cast<std::int64_t>(size)}, at::kByte);
}

packet::packet(std::span<const std::byte> bytes) {
  if (bytes.size() <= small_packet) {
    small_.assign(bytes.begin(), bytes.end());
    return;
  }
  large_ = byte_buffer(bytes.size());
  std::memcpy(large_.mutable_data_ptr(), bytes.data(), bytes.size());
}

packet packet::lent(std::span<const std::byte> bytes, at::Tensor owner) {
  // Nobody writes through it: from_blob wants memory that could be written.
  return packet(at::from_blob(
      const_cast<std::byte*>(bytes.data()), {static_cast<std::int64_t>(bytes.size())},
      [owner = std::move(owner)](void*) {}, at::kByte));
}

std::span<const std::byte> packet::bytes() const noexcept {
  if (!large_.defined()) return small_;
  return {static_cast<const std::byte*>(large_.const_data_ptr()), large_.nbytes()};
}

void packet::write(encoder& out) const {
  out.put(large_.defined());
  if (large_.defined())
    out.put(large_);
  else
    out.put(small_);
}

packet packet::read(decoder& in) {
  packet out;
  if (!in.get<bool>()) {
    out.small_ = in.get<std::vector<std::byte>>();
    return out;
  }
  out.large_ = in.get<at::Tensor>();
  if (!out.large_.defined() || out.large_.scalar_type() != at::kByte || out.large_.dim() != 1 ||
      !out.large_.is_contiguous() || !out.large_.device().is_cpu())
    throw decode_error("a packet of a group is no row of bytes");
  return out;
}

}  // namespace troupe::groups::network
