#include <ATen/ops/_validate_sparse_compressed_tensor_args.h>
#include <ATen/ops/_validate_sparse_coo_tensor_args.h>

#include "troupe/messages/tensor/tensor_check_internal.hpp"
#include "troupe/messages/tensor/tensor_layout_internal.hpp"

namespace troupe::detail {

namespace {

// Whether entry `i` of the indices comes before entry `i + 1`, first dimension first.
bool ascending(const std::int64_t* data, std::int64_t dims, std::int64_t count, std::int64_t i) {
  for (std::int64_t d = 0; d < dims; ++d) {
    const auto a = data[d * count + i];
    const auto b = data[d * count + i + 1];
    if (a != b) return a < b;
  }
  return false;
}

}  // namespace

void bad_tensor(std::size_t index, const char* field, const std::string& problem) {
  throw decode_error("Tensor " + std::to_string(index) + " of a message cannot be read: its " +
                     field + " " + problem + ".");
}

void check_coo(std::size_t index, const at::Tensor& indices, const at::Tensor& values,
               c10::IntArrayRef sizes, bool coalesced) {
  if (indices.scalar_type() != c10::kLong || indices.dim() != 2)
    bad_tensor(index, "indices", "are not a matrix of int64");
  const auto dims = indices.size(0);
  const auto count = indices.size(1);
  if (values.device() != indices.device())
    bad_tensor(index, "indices and values", "lie on different devices");
  if (values.dim() < 1 || values.size(0) != count)
    bad_tensor(index, "values", "are not as many as its indices");
  if (dims + values.dim() - 1 != static_cast<std::int64_t>(sizes.size()) ||
      values.sizes().slice(1) != sizes.slice(static_cast<std::size_t>(dims)))
    bad_tensor(index, "values", "have another shape than its sizes say");
  if (!indices.device().is_cpu()) {
    at::_validate_sparse_coo_tensor_args(indices, values, sizes);
    return;
  }
  const auto rows = indices.contiguous();
  const auto* data = rows.const_data_ptr<std::int64_t>();
  for (std::int64_t d = 0; d < dims; ++d)
    for (std::int64_t i = 0; i < count; ++i)
      if (const auto x = data[d * count + i]; x < 0 || x >= sizes[static_cast<std::size_t>(d)])
        bad_tensor(index, "indices", "reach outside its sizes");
  if (!coalesced) return;
  if (dims == 0 && count > 1) bad_tensor(index, "coalesced flag", "does not fit its indices");
  for (std::int64_t i = 0; dims > 0 && i + 1 < count; ++i)
    if (!ascending(data, dims, count, i))
      bad_tensor(index, "coalesced flag", "does not fit its indices");
}

void check_compressed(std::size_t index, const at::Tensor& compressed, const at::Tensor& plain,
                      const at::Tensor& values, c10::IntArrayRef sizes, c10::Layout layout) {
  if (compressed.device() != plain.device() || compressed.device() != values.device())
    bad_tensor(index, "indices and values", "lie on different devices");
  for (const auto* part : {&compressed, &plain})
    if (part->scalar_type() != c10::kLong && part->scalar_type() != c10::kInt)
      bad_tensor(index, "indices", "are neither int32 nor int64");
  at::_validate_sparse_compressed_tensor_args(compressed, plain, values, sizes, layout);
}

void check_channels(std::size_t index, schema::TensorType type, c10::IntArrayRef sizes,
                    const at::Tensor& scales, const at::Tensor& zero_points, std::size_t axis,
                    bool float_parameters) {
  if (axis >= sizes.size()) bad_tensor(index, "quantizer's axis", "is none of its dimensions");
  if (scales.scalar_type() != (float_parameters ? c10::kFloat : c10::kDouble) ||
      zero_points.scalar_type() != (float_parameters ? c10::kFloat : c10::kLong))
    bad_tensor(index, "quantizer's parameters", "have the wrong dtype");
  for (const auto* part : {&scales, &zero_points})
    if (part->dim() != 1 || part->size(0) != sizes[axis])
      bad_tensor(index, "quantizer's parameters", "are not one for each channel");
  if (!scales.device().is_cpu() || !zero_points.device().is_cpu()) return;
  const auto s = scales.to(c10::kDouble).contiguous();
  const auto z = zero_points.to(c10::kDouble).contiguous();
  for (std::int64_t i = 0; i < s.numel(); ++i)
    if (!quantizer_fits(type, s.const_data_ptr<double>()[i], z.const_data_ptr<double>()[i]))
      bad_tensor(index, "quantizer's scale or zero point", "is out of range");
}

}  // namespace troupe::detail
