#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "troupe/messages/base/function_ref.hpp"
#include "troupe/messages/memory/payload.hpp"
#include "troupe/messages/memory/pending_bytes.hpp"

namespace at {
class Tensor;
}

namespace troupe {

class device_route;
struct tensor_table_builder;

/// Which storages of a message lie in its envelope instead of beside it, in bytes.
struct inline_limits {
  std::size_t each = 2 * 1024;
  std::size_t total = 6 * 1024;
};

/// Whether the receiver may open memory of the device `here` of this process, and copy it to its
/// own device `there`. `problem`: why the memory of one tensor cannot be opened, if so. May throw
/// transport_error: then it must not be copied through host memory.
using lease_check = function_ref<bool(const memory_place& here, const memory_place& there,
                                      const std::string& problem)>;

/// Describes the tensors of one message and hands out the bytes that travel beside it.
///
/// What arrives has the values, dtype, sizes, strides and requires-grad flag of what was added
/// (a result of autograd arrives as a leaf), and views of one storage whose bytes meet share a
/// storage again. At most twice the bytes of the elements are sent, whatever a view was cut from;
/// a view with larger gaps is packed and gets its gaps back at the receiver, unless they are too
/// large to allocate there (64 MiB and four times the packed bytes, over the message): then it
/// arrives without gaps, in the same order of dimensions, and shares nothing.
///
/// Only small tensors and those with gaps are copied; none is written to or taken out of its
/// copy-on-write state. Payloads point into the tensors' memory and keep it alive. A transport may
/// freeze them: who writes to such a tensor then writes to a copy. Of one that is not frozen, what
/// is changed before its payload has been sent is sent as changed.
///
/// One thread. After an exception only `clear` and the destructor may be called.
class tensor_writer {
public:
  explicit tensor_writer(inline_limits limits = {}) noexcept;
  tensor_writer(tensor_writer&&) noexcept;
  tensor_writer& operator=(tensor_writer&&) noexcept;
  ~tensor_writer();

  /// Takes a tensor into the table and returns its index there. Throws encode_error, naming dtype,
  /// device and layout, for a tensor that cannot travel. `given`: nobody will read or write
  /// `tensor` any more; if nothing else refers to its memory, a transport may hand that over.
  std::uint32_t add(const at::Tensor& tensor, bool given = false);

  /// Tensors arrive on the devices that `route` says, which must live until `build` has returned;
  /// the bytes of those on other devices travel through host memory, copied when what the calling
  /// thread's current streams have in hand is done. Without a route all arrive where their bytes
  /// do. Call it when everything was added.
  void go_by(const device_route& route) noexcept {
    if (state_) set_route(route, std::nullopt);  // the hot path has no tensors
  }

  /// The same, and where `may_lease` allows it the receiver copies from this process's device
  /// itself: it gets the name of a copy that is made on the device, or of the tensor's own memory
  /// if it is `given`, and a payload that is to be leased (transport.hpp). What is called must live
  /// until `build` has returned.
  void go_by(const device_route& route, lease_check may_lease) noexcept {
    if (state_) set_route(route, may_lease);
  }

  /// Those that were added and require gradients, in that order.
  std::vector<at::Tensor> requiring_grad() const;

  /// Whether nothing was added.
  bool empty() const noexcept;

  /// An upper bound of the 8-byte words that `build` takes in its message. Throws encode_error.
  std::size_t words();

  /// Writes the table. Call it once, when everything was added. Throws encode_error, also for a
  /// device that the route does not know.
  void build(tensor_table_builder table);

  /// What devices have yet to write of the payloads, which stay as they are meanwhile, whatever the
  /// program does with its tensors. Null: nothing, or some may change: then `take_payloads` waits.
  /// After `build`. Throws encode_error.
  std::unique_ptr<pending_bytes> take_pending();

  /// The bytes that travel beside the envelope, in the order in which the table counts them. Waits
  /// for copies from devices that `take_pending` has not taken. Call it once, after `build`. Throws
  /// encode_error.
  std::vector<outgoing_payload> take_payloads();

  /// Starts over and keeps the memory.
  void clear() noexcept;

private:
  struct state;
  state& made();
  void set_route(const device_route& route, std::optional<lease_check> may_lease) noexcept;

  inline_limits limits_;
  std::unique_ptr<state> state_;
};

}  // namespace troupe
