// One case of the matrix, on one rank.

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include "tests/actors/groups/collective_matrix.hpp"
#include "tests/actors/groups/dtype_elements.hpp"

namespace troupe::test {

namespace {

using groups::operation_kind;
using list = std::vector<at::Tensor>;

class case_on_rank {
public:
  case_on_rank(const process_group& group, const matrix_case& what)
      : group_(group), what_(what), me_(group.rank()), size_(group.size()) {
    for (int rank = 0; rank < size_; ++rank) factors_.push_back(0.5 + 0.25 * rank);
    // Another root in each case.
    root_ = (static_cast<int>(what.dtype) + static_cast<int>(what.shape)) % size_;
  }

  void check() {
    switch (what_.kind) {
      case operation_kind::broadcast: return check_broadcast();
      case operation_kind::all_reduce: return check_all_reduce();
      case operation_kind::reduce: return check_reduce();
      case operation_kind::all_gather: return check_all_gather();
      case operation_kind::all_gather_into_tensor: return check_all_gather_into_tensor();
      case operation_kind::gather: return check_gather();
      case operation_kind::scatter: return check_scatter();
      case operation_kind::reduce_scatter: return check_reduce_scatter();
      case operation_kind::reduce_scatter_tensor: return check_reduce_scatter_tensor();
      case operation_kind::all_to_all: return check_all_to_all();
      case operation_kind::all_to_all_single: return check_all_to_all_single();
      default: FAIL() << "no case";
    }
  }

private:
  std::int64_t count() const {
    switch (what_.shape) {
      case shape_class::empty: return 0;
      case shape_class::scalar: return 1;
      case shape_class::few: return 3;
      case shape_class::page: return 301;
      case shape_class::row: return 17'003;
      case shape_class::long_row: return 40'009;
      case shape_class::strided: return 1'203;
    }
    return 0;
  }

  // In a list, of that place.
  std::int64_t count_at(int place) const {
    const bool even = what_.shape == shape_class::scalar || what_.shape == shape_class::empty;
    return count() + (even ? 0 : place);
  }

  at::Tensor blank(std::int64_t elements) const {
    const auto options = at::TensorOptions(what_.dtype);
    if (what_.shape == shape_class::scalar && elements == 1) return at::empty({}, options);
    if (what_.shape == shape_class::strided) return at::empty({elements, 2}, options).select(1, 0);
    return at::empty({elements}, options);
  }

  // What `rank` gives; `salt` makes others.
  at::Tensor row(int rank, std::int64_t elements, int salt = 0) const {
    return drawn_row(what_.dtype, elements, static_cast<std::uint64_t>(rank * 100 + salt + 1));
  }

  // The same in a tensor of the shape.
  at::Tensor given(int rank, std::int64_t elements, int salt = 0) const {
    const auto out = blank(elements);
    out.copy_(row(rank, elements, salt).reshape(out.sizes()));
    return out;
  }
  at::Tensor mine(std::int64_t elements, int salt = 0) const { return given(me_, elements, salt); }

  // Of all ranks.
  at::Tensor combined_rows(std::int64_t elements, int salt = 0) const {
    list rows;
    for (int rank = 0; rank < size_; ++rank) rows.push_back(row(rank, elements, salt));
    return plainly_reduced(rows, what_.reduction, factors_);
  }

  reduce_by how() const {
    return what_.reduction == reduce_op::premul_sum
               ? premul_sum(factors_[static_cast<std::size_t>(me_)])
               : reduce_by(what_.reduction);
  }

  void expect(const at::Tensor& got, const at::Tensor& wanted, const char* about = "") const {
    EXPECT_TRUE(alike(got.reshape({-1}), wanted.reshape({-1})))
        << what_.text() << ", rank " << me_ << " of " << size_ << ' ' << about;
  }

  void check_broadcast() {
    const auto x = mine(count());
    broadcast(group_, x, root_);
    expect(x, row(root_, count()));
  }

  void check_all_reduce() {
    const auto x = mine(count());
    all_reduce(group_, x, how());
    expect(x, combined_rows(count()));
  }

  void check_reduce() {
    const auto x = mine(count());
    reduce(group_, x, root_, how());
    expect(x, me_ == root_ ? combined_rows(count()) : row(me_, count()));
  }

  list blank_list() const {
    list out;
    for (int rank = 0; rank < size_; ++rank) out.push_back(blank(count_at(rank)));
    return out;
  }

  void check_all_gather() {
    const auto out = blank_list();
    all_gather(group_, out, mine(count_at(me_)));
    for (int from = 0; from < size_; ++from)
      expect(out[static_cast<std::size_t>(from)], row(from, count_at(from)));
  }

  void check_all_gather_into_tensor() {
    const auto out = blank(count() * size_);
    all_gather_into_tensor(group_, out, mine(count()));
    for (int from = 0; from < size_; ++from)
      expect(out.reshape({-1}).slice(0, from * count(), (from + 1) * count()), row(from, count()));
  }

  void check_gather() {
    const auto out = me_ == root_ ? blank_list() : list();
    gather(group_, mine(count_at(me_)), out, root_);
    for (std::size_t from = 0; from < out.size(); ++from)
      expect(out[from], row(static_cast<int>(from), count_at(static_cast<int>(from))));
  }

  void check_scatter() {
    list in;
    if (me_ == root_)
      for (int to = 0; to < size_; ++to) in.push_back(mine(count_at(to), to));
    const auto out = blank(count_at(me_));
    scatter(group_, out, in, root_);
    expect(out, row(root_, count_at(me_), me_));
  }

  void check_reduce_scatter() {
    list in;
    for (int to = 0; to < size_; ++to) in.push_back(mine(count_at(to), to));
    const auto out = blank(count_at(me_));
    reduce_scatter(group_, out, in, how());
    expect(out, combined_rows(count_at(me_), me_));
  }

  void check_reduce_scatter_tensor() {
    const auto out = blank(count());
    reduce_scatter_tensor(group_, out, mine(count() * size_), how());
    expect(out, combined_rows(count() * size_).slice(0, me_ * count(), (me_ + 1) * count()));
  }

  void check_all_to_all() {
    list in, out;
    for (int other = 0; other < size_; ++other) {
      in.push_back(mine(count_at(me_ + other), other));
      out.push_back(blank(count_at(me_ + other)));
    }
    all_to_all(group_, out, in);
    for (int from = 0; from < size_; ++from)
      expect(out[static_cast<std::size_t>(from)], row(from, count_at(me_ + from), me_));
  }

  void check_all_to_all_single() {
    std::vector<std::int64_t> splits;
    std::int64_t all = 0;
    for (int other = 0; other < size_; ++other) {
      splits.push_back(count_at(me_ + other));
      all += splits.back();
    }
    const auto out = blank(all);
    all_to_all_single(group_, out, mine(all), splits, splits);
    std::int64_t at = 0;
    for (int from = 0; from < size_; ++from) {
      // Where this rank's part of that one's begins, and how long all of it is.
      std::int64_t begin = 0, whole = 0;
      for (int to = 0; to < size_; ++to) {
        if (to < me_) begin += count_at(from + to);
        whole += count_at(from + to);
      }
      const auto part = count_at(me_ + from);
      expect(out.reshape({-1}).slice(0, at, at + part),
             row(from, whole).slice(0, begin, begin + part));
      at += part;
    }
  }

  const process_group& group_;
  const matrix_case& what_;
  const int me_;
  const int size_;
  int root_ = 0;
  std::vector<double> factors_;
};

}  // namespace

void check_matrix_case(const process_group& group, const matrix_case& what) {
  case_on_rank(group, what).check();
}

}  // namespace troupe::test
