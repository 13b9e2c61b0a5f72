#include "troupe/actors/groups/sparse_all_reduce.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_sparse_coo_tensor_unsafe.h>
#include <ATen/ops/_validate_sparse_coo_tensor_args.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/view_as_complex.h>
#include <ATen/ops/view_as_real.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <utility>

#include "troupe/actors/groups/process_group/group_core.hpp"

namespace troupe::groups {

namespace {

constexpr std::size_t most_dimensions = 12;

// What a rank has. As eight-byte numbers, it travels in a tensor.
struct sparse_layout {
  std::int64_t dtype = 0;
  std::int64_t sparse_dimensions = 0;
  std::int64_t dimensions = 0;
  std::array<std::int64_t, most_dimensions> sizes{};
  std::int64_t entries = 0;  // alone it may differ between the ranks

  bool agrees_with(const sparse_layout& other) const {
    return dtype == other.dtype && sparse_dimensions == other.sparse_dimensions &&
           dimensions == other.dimensions && sizes == other.sizes;
  }

  // Of a rank that agrees with this one.
  std::string text() const {
    const auto known = static_cast<std::size_t>(
        std::clamp<std::int64_t>(dimensions, 0, std::int64_t{most_dimensions}));
    return fmt::format("a tensor of {} of sizes ({}), {} of them sparse",
                       c10::toString(static_cast<c10::ScalarType>(dtype)),
                       fmt::join(sizes.begin(), sizes.begin() + known, ", "), sparse_dimensions);
  }
};
constexpr std::int64_t layout_words = sizeof(sparse_layout) / sizeof(std::int64_t);

// The type in which values are summed.
c10::ScalarType sum_type(c10::ScalarType dtype) {
  return dtype == c10::kHalf || dtype == c10::kBFloat16 ? c10::kFloat : dtype;
}

bool has_sums(c10::ScalarType dtype) {
  switch (dtype) {
    case c10::kByte:
    case c10::kChar:
    case c10::kShort:
    case c10::kInt:
    case c10::kLong:
    case c10::kHalf:
    case c10::kBFloat16:
    case c10::kFloat:
    case c10::kDouble:
    case c10::kComplexFloat:
    case c10::kComplexDouble: return true;
    default: return false;
  }
}

void check(const at::Tensor& tensor, reduce_by op) {
  if (op.op != reduce_op::sum)
    throw invalid_argument(
        "all_reduce: unsupported reduction operation (allreduce of sparse tensors only works with "
        "ReduceOp.SUM)");
  if (!has_sums(tensor.scalar_type()))
    throw invalid_argument(
        fmt::format("all_reduce does not support sparse {} tensors: there are no sums of them",
                    c10::toString(tensor.scalar_type())));
  if (!tensor.device().is_cpu())
    throw invalid_argument(
        fmt::format("all_reduce takes sparse tensors on the CPU alone, and this one is on {}",
                    tensor.device().str()));
  if (tensor.dim() > static_cast<std::int64_t>(most_dimensions))
    throw invalid_argument(
        fmt::format("all_reduce takes sparse tensors of up to {} dimensions", most_dimensions));
  if (at::GradMode::is_enabled() && tensor.requires_grad() && tensor.is_leaf())
    throw invalid_argument(
        "all_reduce would write into a leaf tensor that requires gradients: detach it, or call it "
        "where at::NoGradGuard is");
}

sparse_layout layout_of(const at::Tensor& tensor) {
  sparse_layout out;
  out.dtype = static_cast<std::int64_t>(tensor.scalar_type());
  out.sparse_dimensions = tensor.sparse_dim();
  out.dimensions = tensor.dim();
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    out.sizes[static_cast<std::size_t>(i)] = tensor.size(i);
  out.entries = tensor._nnz();
  return out;
}

void append_bytes(std::byte*& to, const at::Tensor& tensor) {
  const auto dense = tensor.resolve_conj().resolve_neg().contiguous();
  if (dense.nbytes() > 0) std::memcpy(to, dense.const_data_ptr(), dense.nbytes());
  to += dense.nbytes();
}

// Its indices, and behind them its values.
at::Tensor bytes_of_entries(const at::Tensor& tensor) {
  const auto indices = tensor._indices(), values = tensor._values();
  const auto out =
      at::empty({static_cast<std::int64_t>(indices.nbytes() + values.nbytes())}, at::kByte);
  auto* to = static_cast<std::byte*>(out.mutable_data_ptr());
  append_bytes(to, indices);
  append_bytes(to, values);
  return out;
}

// The sizes of the values of such a layout.
std::vector<std::int64_t> value_sizes(const sparse_layout& what) {
  std::vector<std::int64_t> out{what.entries};
  for (auto i = what.sparse_dimensions; i < what.dimensions; ++i)
    out.push_back(what.sizes[static_cast<std::size_t>(i)]);
  return out;
}

// One sparse sum of one rank.
class sparse_sum final : public call_steps {
public:
  sparse_sum(const at::Tensor& tensor, const at::Tensor& coalesced, operation_place where,
             int ranks)
      : where_(std::move(where)),
        tensor_(tensor),
        mine_(layout_of(coalesced)),
        layouts_(at::empty({ranks, layout_words}, at::kLong)) {}

  // What is exchanged first.
  prepared_call exchange_of_layouts() const {
    prepared_call out(operation_kind::all_gather_into_tensor);
    const auto mine = at::empty({layout_words}, at::kLong);
    std::memcpy(mine.mutable_data_ptr(), &mine_, sizeof mine_);
    out.input(mine);
    out.output(layouts_);
    return out;
  }

  void check() const override {
    for (int rank = 0; rank < static_cast<int>(layouts_.size(0)); ++rank) {
      const auto other = layout(static_cast<std::size_t>(rank));
      if (!other.agrees_with(mine_))
        std::rethrow_exception(mismatch_error(
            where_,
            fmt::format("rank {} has {}, and this one {}", rank, other.text(), mine_.text())));
    }
  }

  void begin(std::span<at::Tensor> outputs) override {
    for (std::size_t rank = 0; rank < outputs.size(); ++rank)
      outputs[rank] = at::empty({bytes(layout(rank))}, at::kByte);
  }

  at::Tensor end(std::span<const at::Tensor> outputs) override {
    const at::NoGradGuard none;
    at::Tensor sum;
    for (std::size_t rank = 0; rank < outputs.size(); ++rank) {
      const auto part = read(layout(rank), outputs[rank]);
      sum = sum.defined() ? sum.add_(part) : part;
    }
    sum = sum.coalesce();
    auto values = sum._values();
    if (tensor_.is_complex()) values = at::view_as_complex(values.contiguous());
    tensor_.copy_(at::_sparse_coo_tensor_unsafe(sum._indices(), values.to(tensor_.scalar_type()),
                                                tensor_.sizes(), {}, {}, {}, {}, true));
    return tensor_;
  }

private:
  sparse_layout layout(std::size_t rank) const {
    sparse_layout out;
    std::memcpy(static_cast<void*>(&out),
                layouts_.const_data_ptr<std::int64_t>() + rank * std::size_t{layout_words},
                sizeof out);
    return out;
  }

  // Of the indices and values of a rank that has the layout of this one, but for `entries`.
  std::int64_t bytes(const sparse_layout& what) const {
    std::int64_t each = what.sparse_dimensions * std::int64_t{sizeof(std::int64_t)};
    std::int64_t values = static_cast<std::int64_t>(tensor_.element_size());
    const auto all = tensor_._values();  // another tensor each time: its sizes end with it
    for (const auto size : all.sizes().slice(1)) values *= size;
    each += values;
    std::int64_t out = 0;
    if (what.entries < 0 || __builtin_mul_overflow(each, what.entries, &out))
      throw decode_error("a rank has a sparse tensor of an impossible number of elements");
    return out;
  }

  at::Tensor read(const sparse_layout& what, const at::Tensor& from) const {
    const auto indices = at::empty({what.sparse_dimensions, what.entries}, at::kLong);
    const auto values = at::empty(value_sizes(what), tensor_._values().options());
    const auto* bytes = static_cast<const std::byte*>(from.const_data_ptr());
    if (indices.nbytes() > 0) std::memcpy(indices.mutable_data_ptr(), bytes, indices.nbytes());
    if (values.nbytes() > 0)
      std::memcpy(values.mutable_data_ptr(), bytes + indices.nbytes(), values.nbytes());
    try {
      at::_validate_sparse_coo_tensor_args(indices, values, tensor_.sizes(), true);
    } catch (const c10::Error& e) {
      throw decode_error(
          fmt::format("all_reduce of sparse tensors: a rank has sent what is none: "
                      "{}",
                      e.what_without_backtrace()));
    }
    // Complex numbers as two each: libtorch's sum multiplies by a complex 1 first, which makes NaN
    // of what is infinite.
    auto sizes = tensor_.sizes().vec();
    if (values.is_complex()) sizes.push_back(2);
    return at::_sparse_coo_tensor_unsafe(
        indices,
        values.is_complex() ? at::view_as_real(values) : values.to(sum_type(values.scalar_type())),
        sizes, {}, {}, {}, {}, true);
  }

  const operation_place where_;  // without a number: it is two operations
  const at::Tensor tensor_;
  const sparse_layout mine_;
  const at::Tensor layouts_;  // of all ranks, when the first collective has ended
};

struct two_calls {
  prepared_call layouts, entries;
};

two_calls calls_of(const group_core& group, const at::Tensor& tensor) {
  at::Tensor coalesced;
  {
    const at::NoGradGuard none;
    coalesced = tensor.coalesce();
  }
  auto sum = std::make_unique<sparse_sum>(
      tensor, coalesced,
      operation_place{group.about().name, group.rank(), operation_kind::all_reduce, 0},
      group.size());
  auto first = sum->exchange_of_layouts();
  prepared_call second(operation_kind::all_gather);
  second.input(bytes_of_entries(coalesced));
  // In the place of those that come when it is known how large they are.
  for (int rank = 0; rank < group.size(); ++rank) second.output(at::empty({0}, at::kByte));
  second.set_steps(std::move(sum));
  return {std::move(first), std::move(second)};
}

}  // namespace

void sparse_all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op) {
  auto* const in = group.member("all_reduce");
  if (!in) return;
  check(tensor, op);
  auto calls = calls_of(*in, tensor);
  in->run(calls.layouts);
  in->run(calls.entries);
}

work start_sparse_all_reduce(const process_group& group, const at::Tensor& tensor, reduce_by op) {
  auto* const in = group.member("all_reduce");
  if (!in) return work();
  check(tensor, op);
  auto calls = calls_of(*in, tensor);
  in->start(std::move(calls.layouts));
  return in->start(std::move(calls.entries));
}

}  // namespace troupe::groups
