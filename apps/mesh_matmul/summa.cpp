#include "troupe/apps/mesh_matmul/summa.hpp"

#include <ATen/ops/addmm.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/mv.h>
#include <ATen/ops/ones.h>

#include <algorithm>
#include <troupe/collectives.hpp>
#include <utility>

namespace mesh_matmul {

// Panels that are on their way, or here.
struct product::fetched {
  at::Tensor a, b;
  troupe::work a_here, b_here;
};

product::product(troupe::device_mesh mesh, std::int64_t m, std::int64_t n, std::int64_t k,
                 std::int64_t panel)
    : mesh_(std::move(mesh)), row_(mesh_.group(1)), column_(mesh_.group(0)), m_(m), n_(n), k_(k) {
  const auto at = mesh_.coordinate().value();
  rows_ = part_of(m, at[0], mesh_.size(0));
  columns_ = part_of(n, at[1], mesh_.size(1));
  a_columns_ = part_of(k, at[1], mesh_.size(1));
  b_rows_ = part_of(k, at[0], mesh_.size(0));
  for (std::int64_t begin = 0; begin < k;) {
    const auto of_a = part_of(k, part_with(k, begin, mesh_.size(1)), mesh_.size(1));
    const auto of_b = part_of(k, part_with(k, begin, mesh_.size(0)), mesh_.size(0));
    panels_.push_back({begin, std::min({begin + panel, of_a.end, of_b.end})});
    begin = panels_.back().end;
  }
}

product::fetched product::fetch(const at::Tensor& a, const at::Tensor& b,
                                const extent& panel) const {
  const auto a_owner = static_cast<int>(part_with(k_, panel.begin, mesh_.size(1)));
  const auto b_owner = static_cast<int>(part_with(k_, panel.begin, mesh_.size(0)));
  fetched out;
  // A copy: the columns of a panel do not lie together.
  out.a = row_.rank() == a_owner
              ? a.narrow(1, panel.begin - a_columns_.begin, panel.size()).contiguous()
              : at::empty({rows_.size(), panel.size()}, at::kFloat);
  out.b = column_.rank() == b_owner ? b.narrow(0, panel.begin - b_rows_.begin, panel.size()).clone()
                                    : at::empty({panel.size(), columns_.size()}, at::kFloat);
  out.a_here = troupe::broadcast(row_, out.a, a_owner, troupe::async);
  out.b_here = troupe::broadcast(column_, out.b, b_owner, troupe::async);
  return out;
}

void product::multiply(const at::Tensor& a, const at::Tensor& b, at::Tensor& c,
                       bool blocking) const {
  c.zero_();
  auto now = fetch(a, b, panels_[0]);
  for (std::size_t i = 0; i < panels_.size(); ++i) {
    now.a_here.wait();
    now.b_here.wait();
    fetched next;
    const bool more = i + 1 < panels_.size();
    if (more && !blocking) next = fetch(a, b, panels_[i + 1]);
    c.addmm_(now.a, now.b);
    if (more && blocking) next = fetch(a, b, panels_[i + 1]);
    now = std::move(next);
  }
}

void product::multiply_without_others(at::Tensor& c) const {
  const auto widest = std::ranges::max(panels_, {}, &extent::size).size();
  const auto a = at::ones({rows_.size(), widest}, at::kFloat);
  const auto b = at::ones({widest, columns_.size()}, at::kFloat);
  c.zero_();
  for (const auto& panel : panels_)
    c.addmm_(a.narrow(1, 0, panel.size()), b.narrow(0, 0, panel.size()));
}

bool product::is_right(const at::Tensor& a, const at::Tensor& b, const at::Tensor& c,
                       std::uint64_t seed) const {
  // c x = a (b x): the sums over a matrix' columns are along a row of ranks.
  const auto along_row = [&](const at::Tensor& matrix, const at::Tensor& vector) {
    auto sum = at::mv(matrix.to(at::kDouble), vector);
    troupe::all_reduce(row_, sum);
    return sum;
  };
  const auto x = vector_of(seed, columns_);
  const auto part = along_row(b, x);  // of k, this row's
  std::vector<at::Tensor> parts;
  for (std::int64_t i = 0; i < mesh_.size(0); ++i)
    parts.push_back(at::empty({part_of(k_, i, mesh_.size(0)).size()}, at::kDouble));
  troupe::all_gather(column_, parts, part);
  const auto expected = along_row(a, at::cat(parts).narrow(0, a_columns_.begin, a_columns_.size()));
  const bool same = at::equal(along_row(c, x), expected);
  auto all = at::full({1}, same ? 1 : 0, at::kLong);
  troupe::all_reduce(mesh_.world(), all, troupe::reduce_op::min);
  return all.item<std::int64_t>() == 1;
}

double product::operations() const noexcept {
  return 2.0 * static_cast<double>(m_) * static_cast<double>(n_) * static_cast<double>(k_);
}

}  // namespace mesh_matmul
