#include "troupe/actors/groups/object_collectives.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <cstring>

namespace troupe::groups {

namespace {

at::Tensor row_of_bytes(std::span<const std::byte> bytes) {
  auto out = at::empty({static_cast<std::int64_t>(bytes.size())}, at::kByte);
  if (!bytes.empty()) std::memcpy(out.mutable_data_ptr(), bytes.data(), bytes.size());
  return out;
}

std::vector<std::byte> bytes_in(const at::Tensor& row) {
  std::vector<std::byte> out(row.nbytes());
  if (!out.empty()) std::memcpy(out.data(), row.const_data_ptr(), out.size());
  return out;
}

at::Tensor number(std::size_t value) {
  return at::scalar_tensor(static_cast<std::int64_t>(value), at::kLong);
}

// The size that another rank has named. What it sends is checked against it.
std::int64_t size_in(const at::Tensor& tensor, std::int64_t at = 0) {
  const auto size = tensor.const_data_ptr<std::int64_t>()[at];
  if (size < 0) throw decode_error("the size of an object is negative");
  return size;
}

std::vector<at::Tensor> rows_of(const at::Tensor& sizes) {
  std::vector<at::Tensor> out;
  for (std::int64_t i = 0; i < sizes.numel(); ++i)
    out.push_back(at::empty({size_in(sizes, i)}, at::kByte));
  return out;
}

std::vector<std::vector<std::byte>> bytes_in(const std::vector<at::Tensor>& rows) {
  std::vector<std::vector<std::byte>> out;
  for (const auto& one : rows) out.push_back(bytes_in(one));
  return out;
}

}  // namespace

void broadcast_bytes(const process_group& group, std::vector<std::byte>& bytes, int src) {
  const auto size = number(bytes.size());
  broadcast(group, size, src);
  const auto row =
      group.rank() == src ? row_of_bytes(bytes) : at::empty({size_in(size)}, at::kByte);
  broadcast(group, row, src);
  if (group.rank() != src) bytes = bytes_in(row);
}

std::vector<std::vector<std::byte>> all_gather_bytes(const process_group& group,
                                                     std::span<const std::byte> mine) {
  const auto sizes = at::empty({group.size()}, at::kLong);
  all_gather_into_tensor(group, sizes, number(mine.size()));
  const auto rows = rows_of(sizes);
  all_gather(group, rows, row_of_bytes(mine));
  return bytes_in(rows);
}

std::vector<std::vector<std::byte>> gather_bytes(const process_group& group,
                                                 std::span<const std::byte> mine, int dst) {
  const auto sizes = at::empty({group.size()}, at::kLong);
  all_gather_into_tensor(group, sizes, number(mine.size()));
  const auto rows = group.rank() == dst ? rows_of(sizes) : std::vector<at::Tensor>();
  gather(group, row_of_bytes(mine), rows, dst);
  return bytes_in(rows);
}

std::vector<std::byte> scatter_bytes(const process_group& group,
                                     const std::vector<std::vector<std::byte>>& all, int src) {
  std::vector<at::Tensor> sizes, rows;
  if (group.rank() == src) {
    if (all.empty())
      throw invalid_argument("source rank must provide non-None scatter_object_input_list");
    if (all.size() != static_cast<std::size_t>(group.size()))
      throw invalid_argument(fmt::format(
          "scatter_object: {} objects are not one for each of {} ranks", all.size(), group.size()));
    for (const auto& one : all) {
      sizes.push_back(number(one.size()));
      rows.push_back(row_of_bytes(one));
    }
  }
  const auto size = number(0);
  scatter(group, size, sizes, src);
  const auto row = at::empty({size_in(size)}, at::kByte);
  scatter(group, row, rows, src);
  return bytes_in(row);
}

void send_bytes(const process_group& group, std::span<const std::byte> bytes, int dst, int tag) {
  send(group, number(bytes.size()), dst, tag);
  send(group, row_of_bytes(bytes), dst, tag);
}

std::pair<std::vector<std::byte>, int> recv_bytes(const process_group& group, int src, int tag) {
  const auto size = number(0);
  const auto from = recv(group, size, src, tag);
  const auto row = at::empty({size_in(size)}, at::kByte);
  recv(group, row, from, tag);
  return {bytes_in(row), from};
}

}  // namespace troupe::groups
