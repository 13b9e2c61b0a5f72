#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtilsMulti.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/native/TypeProperties.h>
#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/result_type.h>
#include <ATen/ops/sum.h>
#include <torch/library.h>

#include "accelerator.hpp"
#include "counters_internal.hpp"
#include "host_view_internal.hpp"
#include "operators_internal.hpp"
#include "streams_internal.hpp"

namespace troupe::test::accelerator {

namespace {

void check_device(const at::Tensor& t, c10::Device device) {
  TORCH_CHECK(t.device() == device || (t.device().is_cpu() && t.dim() == 0),
              "Expected all tensors to be on the same device, but found ", device, " and ",
              t.device());
}

template <class Work>
void launch(c10::Device on, Work work) {
  ++count().kernels;
  thread_of(current_stream(on.index())).add(kernel(std::move(work)));
}

at::Tensor& fill(at::Tensor& self, const at::Scalar& value) {
  launch(self.device(), [out = host_view(self), value] { out.fill_(value); });
  return self;
}

at::Tensor& zero(at::Tensor& self) { return fill(self, 0); }

// A number that lies on the host is taken as it is now.
at::Tensor operand(const at::Tensor& t) { return t.device().is_cpu() ? t.clone() : host_view(t); }

// out = op(left, right), on the device of the one that has one.
template <class Op>
at::Tensor elementwise(const at::Tensor& left, const at::Tensor& right, Op op) {
  const auto device = left.device().is_cpu() ? right.device() : left.device();
  check_device(left, device);
  check_device(right, device);
  const auto out = at::empty(at::infer_size(left.sizes(), right.sizes()),
                             at::TensorOptions(device).dtype(at::result_type(left, right)));
  launch(device, [op, to = host_view(out), a = operand(left), b = operand(right)]() mutable {
    op(to, a, b);
  });
  return out;
}

template <class Op>
at::Tensor& elementwise_in_place(at::Tensor& self, const at::Tensor& other, Op op) {
  check_device(other, self.device());
  TORCH_CHECK(at::infer_size(self.sizes(), other.sizes()) == self.sizes(),
              "the result has another shape");
  launch(self.device(),
         [op, to = host_view(self), b = operand(other)]() mutable { op(to, to, b); });
  return self;
}

auto adding(const at::Scalar& alpha) {
  return [alpha](at::Tensor& out, const at::Tensor& a, const at::Tensor& b) {
    at::add_out(out, a, b, alpha);
  };
}

void multiply(at::Tensor& out, const at::Tensor& a, const at::Tensor& b) { at::mul_out(out, a, b); }

at::Tensor add(const at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha) {
  return elementwise(a, b, adding(alpha));
}
at::Tensor& add_in_place(at::Tensor& a, const at::Tensor& b, const at::Scalar& alpha) {
  return elementwise_in_place(a, b, adding(alpha));
}
at::Tensor mul(const at::Tensor& a, const at::Tensor& b) { return elementwise(a, b, &multiply); }
at::Tensor& mul_in_place(at::Tensor& a, const at::Tensor& b) {
  return elementwise_in_place(a, b, &multiply);
}

at::Tensor sum_dims(const at::Tensor& self, at::OptionalIntArrayRef dims, bool keep,
                    std::optional<c10::ScalarType> type) {
  const auto own = self.scalar_type();
  const auto result = type.value_or(c10::isIntegralType(own, true) ? c10::ScalarType::Long : own);
  const bool all = !dims || dims->empty();
  const auto over = at::dim_list_to_bitset(all ? c10::IntArrayRef() : *dims, self.dim());
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0; i < self.dim(); ++i) {
    if (!all && !over[static_cast<std::size_t>(i)])
      sizes.push_back(self.size(i));
    else if (keep)
      sizes.push_back(1);
  }
  const auto out = at::empty(sizes, at::TensorOptions(self.device()).dtype(result));
  std::vector<std::int64_t> list;
  if (!all) list.assign(dims->begin(), dims->end());
  launch(self.device(), [to = host_view(out), in = host_view(self), list, all, keep, result]() {
    to.copy_(all && !keep
                 ? at::sum(in, result)
                 : at::sum(in, all ? at::OptionalIntArrayRef() : at::OptionalIntArrayRef(list),
                           keep, result));
  });
  return out;
}

at::Tensor sum_all(const at::Tensor& self, std::optional<c10::ScalarType> type) {
  return sum_dims(self, std::nullopt, false, type);
}

// Takes the tensors to the host by copies that wait for the current stream.
void fall_back(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  ++count().fallbacks;
  at::native::cpu_fallback(op, stack);
}

}  // namespace

void register_operators() {
  static auto* const kernels = new torch::Library(
      torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  register_copies(*kernels);
  register_shapes(*kernels);
  register_convolution(*kernels);
  kernels->impl("fill_.Scalar", &fill);
  kernels->impl("zero_", &zero);
  kernels->impl("add.Tensor", &add);
  kernels->impl("add_.Tensor", &add_in_place);
  kernels->impl("mul.Tensor", &mul);
  kernels->impl("mul_.Tensor", &mul_in_place);
  kernels->impl("sum", &sum_all);
  kernels->impl("sum.dim_IntList", &sum_dims);
  static auto* const others = new torch::Library(torch::Library::IMPL, "_",
                                                 c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  others->fallback(torch::CppFunction::makeFromBoxedFunction<&fall_back>());
}

}  // namespace troupe::test::accelerator
