#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "troupe/messages/memory/payload.hpp"
#include "troupe/messages/schema/tensor.capnp.h"

namespace at {
class Tensor;
}

namespace troupe {

namespace detail {
struct device_work;
}

/// Makes the tensors of a message that has arrived. Nothing in the message is trusted: every field
/// is checked before it is used, and what is allocated is bounded by what arrived.
///
/// The tensors lie in the payloads' own memory, each payload held by the tensors on it; only what
/// came inside the envelope and views with gaps are copied. They are ordinary tensors: writable,
/// resizable, in the memory of the place where the payload landed, or of the GPU that the table
/// names, to which they are moved.
///
/// The table's message must outlive the reader, not the tensors. One thread.
class tensor_reader {
public:
  /// Throws decode_error, naming the storage and the field, if the storages make no sense or the
  /// payloads are not those that the table announces. No payload is empty; each is aligned to 16
  /// bytes or more. `usable`: the devices to which tensors may be moved; empty: all of the process.
  tensor_reader(schema::TensorTable::Reader table, std::vector<incoming_payload>&& payloads,
                const std::vector<memory_place>& usable = {});

  tensor_reader(tensor_reader&&) noexcept;
  tensor_reader& operator=(tensor_reader&&) noexcept;
  ~tensor_reader();

  /// Number of tensors in the table, parts of other tensors included; 0 after let_go.
  std::size_t size() const noexcept;

  /// The tensor at `index`, the same one each time. Throws decode_error, naming the tensor and the
  /// field.
  at::Tensor get(std::uint32_t index);

  /// Those that require gradients, in the order of the sender's. Throws decode_error.
  std::vector<at::Tensor> requiring_grad();

  /// The copies of tensors to devices, which may still run: what uses the tensors must be in order
  /// with their streams. nullptr: there are none. For as long as this lives, until `let_go`.
  const detail::device_work* copies() const noexcept;

  /// Drops its hold on all tensors and payloads: from here on they live as long as the tensors that
  /// were taken. There are none left to get.
  void let_go() noexcept;

private:
  struct state;
  std::unique_ptr<state> state_;
};

}  // namespace troupe
