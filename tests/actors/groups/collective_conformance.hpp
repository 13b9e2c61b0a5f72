#pragma once

// What every backend of collectives has to do, beside a plain reference: all operations, dtypes,
// reductions and sizes. A backend's test calls these with a group of its own.

#include <ATen/core/Tensor.h>

#include <functional>
#include <troupe/collectives.hpp>
#include <vector>

namespace troupe::test {

/// While it lives, what the calling thread checks lies on `device`, not on the CPU.
class conformance_device {
public:
  explicit conformance_device(c10::Device device);
  ~conformance_device();
  conformance_device(const conformance_device&) = delete;
  conformance_device& operator=(const conformance_device&) = delete;

private:
  c10::Device before_;
};

/// Elements of one rank that differ between ranks, places and salts; small enough to be combined.
at::Tensor values_of(int rank, std::vector<std::int64_t> sizes, at::ScalarType dtype, int salt = 0);

/// What the ranks' tensors are together, element by element in the order of the ranks; half and
/// bfloat16 in float32.
at::Tensor combined(const std::vector<at::Tensor>& tensors, reduce_op op);

/// The reductions that a dtype has.
std::vector<reduce_op> reductions_of(at::ScalarType dtype);

/// All dtypes that collectives move.
std::vector<at::ScalarType> moved_dtypes();

/// Same dtype, sizes and bits.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

// Called on all ranks of a group, with the same arguments. They fail tests, and throw what the
// collectives throw.
void check_broadcast(const process_group& group, at::ScalarType dtype, std::int64_t count);
void check_reductions(const process_group& group, at::ScalarType dtype, reduce_op op,
                      std::int64_t count);
void check_gathers(const process_group& group, at::ScalarType dtype, std::int64_t count);
void check_all_to_all(const process_group& group, at::ScalarType dtype, std::int64_t count);
void check_coalesced(const process_group& group);
void check_shapes(const process_group& group);
void check_in_place(const process_group& group);
void check_disagreements(const std::function<process_group()>& make_group, int rank);

}  // namespace troupe::test
