#pragma once

#include <c10/core/Storage.h>
#include <c10/util/DimVector.h>
#include <c10/util/SmallVector.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "troupe/messages/memory/payload.hpp"
#include "troupe/messages/schema/tensor.capnp.h"
#include "troupe/messages/tensor/device_streams.hpp"
#include "troupe/messages/tensor/tensor_check_internal.hpp"

namespace troupe::detail {

/// Where a strided tensor lies in its storage; all of it within.
struct geometry {
  c10::DimVector sizes;
  c10::DimVector strides;
  std::int64_t offset = 0;  ///< in elements
  std::int64_t count = 0;   ///< of elements
  std::size_t item = 1;     ///< bytes of an element
};

/// A tensor's sizes: at most 64, none negative. Throws decode_error.
c10::DimVector read_sizes(std::size_t index, schema::TensorEntry::Reader in);

/// The storages of a message that has arrived, made of its payloads and of what lies in the
/// envelope. Throws decode_error or kj::Exception if they make no sense.
class arrived_storages {
public:
  /// `usable`: the devices that may be used; empty: all.
  arrived_storages(schema::TensorTable::Reader table, std::vector<incoming_payload>&& payloads,
                   const std::vector<memory_place>& usable);

  /// Where strided tensor `index` lies. Throws decode_error if that is not within its storage.
  geometry locate(std::size_t index, schema::TensorEntry::Reader in) const;

  const c10::Storage& operator[](std::size_t index) const { return storages_[index]; }

  /// Copies to devices, and streams of the pool that wait for them; without streams: there are
  /// none.
  const device_work& copies() const noexcept { return copies_; }

private:
  bool is_leased(std::size_t index) const noexcept;
  c10::Storage borrow(std::size_t index, incoming_payload&& payload);
  c10::Storage expand(std::size_t index, const c10::Storage& packed);
  void land_all();
  void land(std::size_t index, std::vector<c10::Storage>& from);
  const c10::Stream& stream_of(const c10::Device& device);

  capnp::List<schema::TensorEntry>::Reader tensors_;
  capnp::List<schema::TensorStorage>::Reader descriptors_;
  c10::SmallVector<c10::Storage, 2> storages_;
  c10::SmallVector<std::uint32_t, 2> leased_;  // those in other processes' devices; ascending
  device_work copies_;
};

}  // namespace troupe::detail
