#include "troupe/actors/tensors/tensor_part.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "troupe/actors/tensors/asking_node.hpp"
#include "troupe/actors/tensors/snapshot.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::detail {

namespace {

std::string sizes_text(const at::Tensor& t) {
  return fmt::format("[{}]", fmt::join(t.sizes(), ", "));
}

// Sizes do not broadcast here: whoever names a part means all of it.
void copy_between(const at::Tensor& to, const at::Tensor& from, const char* what) {
  const at::NoGradGuard no_grad;
  if (!to.defined() || !from.defined() || to.sizes() != from.sizes() ||
      to.scalar_type() != from.scalar_type())
    throw invalid_argument(fmt::format(
        "{}: the part is {}, and the tensor {}", what,
        from.defined() ? sizes_text(from) + " of " + c10::toString(from.scalar_type())
                       : "undefined",
        to.defined() ? sizes_text(to) + " of " + c10::toString(to.scalar_type()) : "undefined"));
  to.copy_(from);
}

tensor_part read_for(const asking_node& reader, bool is_owner, const at::Tensor& value,
                     const std::vector<slice>& which) {
  if (!value.defined()) {
    if (!which.empty()) throw invalid_argument("an undefined tensor has no slices");
    return {value, 0, true};
  }
  auto read = read_version(value, which);
  if (which.empty() || !read.whole) return {std::move(read.tensor), read.version, which.empty()};
  auto part = sliced(read.tensor, which);  // says what is wrong, also when all is lent
  if (is_owner || reader.is_lent(read.tensor)) return {std::move(read.tensor), read.version, true};
  return {std::move(part), read.version, false};
}

}  // namespace

tensor_part read_part(const at::Tensor& value, const std::vector<slice>& which) {
  return read_for(asking_node::of_this_call(), false, value, which);
}

tensor_part read_own_part(const at::Tensor& value, const std::vector<slice>& which) {
  return read_for({}, true, value, which);
}

basic_versioned_tensor<at::Tensor> taken_from(tensor_part&& answer,
                                              const std::vector<slice>& which) {
  auto& [tensor, version, whole] = answer;
  if (!whole || which.empty()) return {std::move(tensor), version};
  return {copy_of_slices(tensor, which), version};
}

std::uint64_t take_into(const at::Tensor& to, tensor_part&& answer,
                        const std::vector<slice>& which) {
  const auto& [tensor, version, whole] = answer;
  copy_between(to, whole ? sliced(tensor, which) : tensor, "read_into");
  return version;
}

void write_part(at::Tensor& value, const at::Tensor& from, const std::vector<slice>& which) {
  if (!value.defined()) throw invalid_argument("write_from: the tensor is undefined");
  const writing now(value);
  copy_between(sliced(value, which), from, "write_from");
}
}  // namespace troupe::detail
