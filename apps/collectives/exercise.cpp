#include "troupe/apps/collectives/exercise.hpp"

#include <ATen/ATen.h>

#include <algorithm>

namespace collectives {

namespace {

bool gives_parts(operation op) {
  return op == operation::all_to_all || op == operation::reduce_scatter || op == operation::scatter;
}

bool gets_parts(operation op) {
  return op == operation::all_gather || op == operation::all_to_all || op == operation::gather;
}

bool is_in_place(operation op) {
  return op == operation::all_reduce || op == operation::broadcast || op == operation::reduce;
}

}  // namespace

exercise::exercise(const troupe::process_group& group, const options& asked, std::uint64_t size)
    : group_(group), asked_(asked) {
  if (asked_.op == operation::barrier) return;
  const auto parts = gives_parts(asked_.op) || gets_parts(asked_.op) ? group_.size() : 1;
  const auto elements = static_cast<std::int64_t>(size / c10::elementSize(asked_.dtype));
  count_ = std::max<std::int64_t>(1, elements / parts);
  const auto new_tensor = [&](bool of_all) {
    return at::zeros({of_all ? count_ * parts : count_}, asked_.dtype);
  };
  input_ = new_tensor(gives_parts(asked_.op));
  output_ = is_in_place(asked_.op) ? input_ : new_tensor(gets_parts(asked_.op));
  given_ = values_of(group_.rank(), input_.numel() / count_);
}

std::uint64_t exercise::size() const {
  return count_ == 0 ? 0 : std::max(input_.nbytes(), output_.nbytes());
}

at::Tensor exercise::values_of(int rank, std::int64_t parts) const {
  // Small numbers: exact in every dtype, and so are their sums.
  const auto places = at::arange(count_ * parts, at::kLong);
  if (asked_.reduction == troupe::reduce_op::product && reduces(asked_.op))
    return places.add(rank).remainder(2).add(1).to(asked_.dtype);
  return places.remainder(5).add(rank % 7).to(asked_.dtype);
}

void exercise::write() {
  if (count_ > 0) input_.copy_(given_);
}

// So that an operation that writes nothing is found out.
void exercise::forget_output() {
  if (count_ > 0 && !output_.is_same(input_)) output_.fill_(77);
}

std::vector<at::Tensor> exercise::parts_of(const at::Tensor& all) const {
  if (!is_root()) return {};
  return all.split(count_);
}

void exercise::run() {
  const auto blocking = [&](const auto& call) {
    if (asked_.async)
      call(troupe::async).wait();
    else
      call();
  };
  const troupe::reduce_by by(asked_.reduction);
  using namespace troupe;
  blocking([&](auto... how) {
    switch (asked_.op) {
      case operation::all_reduce: return all_reduce(group_, input_, by, how...);
      case operation::all_gather: return all_gather_into_tensor(group_, output_, input_, how...);
      case operation::all_to_all: return all_to_all_single(group_, output_, input_, {}, {}, how...);
      case operation::barrier: return barrier(group_, how...);
      case operation::broadcast: return broadcast(group_, input_, 0, how...);
      case operation::gather: return gather(group_, input_, parts_of(output_), 0, how...);
      case operation::reduce: return reduce(group_, input_, 0, by, how...);
      case operation::reduce_scatter:
        return reduce_scatter_tensor(group_, output_, input_, by, how...);
      case operation::scatter: return scatter(group_, output_, parts_of(input_), 0, how...);
    }
    return barrier(group_, how...);
  });
}

at::Tensor exercise::combined(std::int64_t parts) const {
  auto all = values_of(0, parts);
  for (int rank = 1; rank < group_.size(); ++rank) {
    const auto more = values_of(rank, parts);
    switch (asked_.reduction) {
      case troupe::reduce_op::product: all.mul_(more); break;
      case troupe::reduce_op::min: all = at::minimum(all, more); break;
      case troupe::reduce_op::max: all = at::maximum(all, more); break;
      default: all.add_(more);
    }
  }
  if (asked_.reduction == troupe::reduce_op::avg) {
    if (c10::isFloatingType(asked_.dtype)) return all.div_(group_.size());
    return all.floor_divide_(group_.size());
  }
  return all;
}

at::Tensor exercise::expected() const {
  const auto rank = group_.rank();
  const auto part_of = [&](const at::Tensor& all, int which) {
    return all.narrow(0, which * count_, count_);
  };
  std::vector<at::Tensor> each;
  switch (asked_.op) {
    case operation::all_reduce: return combined(1);
    case operation::reduce: return is_root() ? combined(1) : values_of(rank, 1);
    case operation::broadcast: return values_of(0, 1);
    case operation::reduce_scatter: return part_of(combined(group_.size()), rank);
    case operation::scatter: return part_of(values_of(0, group_.size()), rank);
    case operation::gather:
      if (!is_root()) return output_;  // not written
      [[fallthrough]];
    case operation::all_gather:
      for (int p = 0; p < group_.size(); ++p) each.push_back(values_of(p, 1));
      return at::cat(each);
    case operation::all_to_all:
      for (int p = 0; p < group_.size(); ++p)
        each.push_back(part_of(values_of(p, group_.size()), rank));
      return at::cat(each);
    case operation::barrier: break;
  }
  return {};
}

std::int64_t exercise::wrong() const {
  if (count_ == 0) return 0;
  // Averages are rounded.
  const auto got = output_.to(at::kDouble), want = expected().to(at::kDouble);
  const double nearly = asked_.dtype == c10::ScalarType::BFloat16 ? 1e-2
                        : asked_.dtype == c10::ScalarType::Half   ? 2e-3
                                                                  : 1e-6;
  return at::isclose(got, want, nearly, 1e-9).logical_not_().sum().item<std::int64_t>();
}

}  // namespace collectives
