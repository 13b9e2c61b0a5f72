#include "troupe/actors/groups/object_collectives.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/scalar_tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

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

at::Tensor number(std::int64_t value) { return at::scalar_tensor(value, at::kLong); }

std::int64_t number_in(const at::Tensor& tensor, std::int64_t at = 0) {
  return tensor.const_data_ptr<std::int64_t>()[at];
}

// For what a rank of which `size` came sends next; that is checked against it.
at::Tensor row_for(std::int64_t size) {
  return at::empty({size < 0 ? -1 - size : size}, at::kByte);
}

std::vector<at::Tensor> rows_for(const at::Tensor& sizes) {
  std::vector<at::Tensor> out;
  for (std::int64_t i = 0; i < sizes.numel(); ++i) out.push_back(row_for(number_in(sizes, i)));
  return out;
}

// Ranks that had nothing to give.
class failures {
public:
  explicit failures(const char* operation) : text_(operation) {}

  void look_at(int rank, std::int64_t size, const at::Tensor& row) {
    if (size >= 0) return;
    const auto text =
        row.numel() == 0 ? std::string() : failure_in(bytes_in(row), rank).value_or("");
    add(rank, text);
  }
  void add(int rank, const std::string& text) {
    text_ += fmt::format("{} rank {} has failed: {}", any_ ? ";" : ":", rank, text);
    any_ = true;
  }
  void throw_if_any() {
    if (any_) throw remote_error(std::move(text_));
  }

private:
  std::string text_;
  bool any_ = false;
};

void rethrow_own(const packed_object& mine) {
  if (mine.failure) std::rethrow_exception(mine.failure);
}

// What all ranks have given is here; `sizes` is known even where the rows are not.
void check_all(const char* operation, const packed_object& mine, const at::Tensor& sizes,
               const std::vector<at::Tensor>& rows) {
  rethrow_own(mine);
  failures found(operation);
  for (std::int64_t rank = 0; rank < sizes.numel(); ++rank)
    if (const auto size = number_in(sizes, rank); size < 0)
      found.look_at(
          static_cast<int>(rank), size,
          rows.empty() ? at::empty({0}, at::kByte) : rows[static_cast<std::size_t>(rank)]);
  found.throw_if_any();
}

void check_one(const char* operation, int rank, std::int64_t size, const at::Tensor& row) {
  failures found(operation);
  found.look_at(rank, size, row);
  found.throw_if_any();
}

std::vector<std::vector<std::byte>> bytes_in(const std::vector<at::Tensor>& rows) {
  std::vector<std::vector<std::byte>> out;
  for (const auto& one : rows) out.push_back(bytes_in(one));
  return out;
}

}  // namespace

void check_length(const char* operation, std::size_t mine, int from, std::size_t found) {
  if (mine != found)
    throw collective_mismatch(
        fmt::format("{}: the list of this rank has {} objects, that of rank {} {}: give it as many",
                    operation, mine, from, found));
}

void broadcast_bytes(const process_group& group, packed_object& object, int src) {
  const auto size = number(object.size());
  broadcast(group, size, src);
  const bool mine = group.rank() == src;
  const auto row = mine ? row_of_bytes(object.bytes) : row_for(number_in(size));
  broadcast(group, row, src);
  if (mine) return rethrow_own(object);
  check_one("broadcast of an object", src, number_in(size), row);
  object.bytes = bytes_in(row);
}

std::vector<std::vector<std::byte>> all_gather_bytes(const process_group& group,
                                                     const packed_object& mine) {
  const auto sizes = at::empty({group.size()}, at::kLong);
  all_gather_into_tensor(group, sizes, number(mine.size()));
  const auto rows = rows_for(sizes);
  all_gather(group, rows, row_of_bytes(mine.bytes));
  check_all("all_gather of objects", mine, sizes, rows);
  return bytes_in(rows);
}

std::vector<std::vector<std::byte>> gather_bytes(const process_group& group,
                                                 const packed_object& mine, int dst) {
  const auto sizes = at::empty({group.size()}, at::kLong);
  all_gather_into_tensor(group, sizes, number(mine.size()));
  const auto rows = group.rank() == dst ? rows_for(sizes) : std::vector<at::Tensor>();
  gather(group, row_of_bytes(mine.bytes), rows, dst);
  check_all("gather of objects", mine, sizes, rows);
  return bytes_in(rows);
}

std::vector<std::byte> scatter_bytes(const process_group& group, std::vector<packed_object> all,
                                     int src) {
  std::vector<at::Tensor> sizes, rows;
  const bool mine = group.rank() == src;
  if (mine) {
    const auto ranks = static_cast<std::size_t>(group.size());
    if (all.size() != ranks)
      all.assign(
          ranks, pack_object(object_type{}, [count = all.size(), ranks](encoder&) {
            throw invalid_argument(
                count == 0
                    ? "source rank must provide non-None scatter_object_input_list"
                    : fmt::format("scatter_object: {} objects are not one for each of {} ranks",
                                  count, ranks));
          }));
    // All have theirs, or none.
    const auto bad =
        std::ranges::find_if(all, [](const auto& one) { return one.failure != nullptr; });
    if (bad != all.end()) all.assign(ranks, packed_object(*bad));
    for (const auto& one : all) {
      sizes.push_back(number(one.size()));
      rows.push_back(row_of_bytes(one.bytes));
    }
  }
  const auto size = number(0);
  scatter(group, size, sizes, src);
  const auto row = row_for(number_in(size));
  scatter(group, row, rows, src);
  if (mine) rethrow_own(all.front());
  check_one("scatter of objects", src, number_in(size), row);
  return bytes_in(row);
}

void send_bytes(const process_group& group, packed_object mine, int dst, int tag) {
  const auto kept = std::make_shared<std::vector<std::byte>>(std::move(mine.bytes));
  const auto row = at::from_blob(
      kept->data(), {static_cast<std::int64_t>(kept->size())}, [kept](void*) {}, at::kByte);
  send_object_bytes(group, row, dst, tag);
  rethrow_own(mine);
}

std::pair<network::packet, int> recv_bytes(const process_group& group, int src, int tag) {
  auto out = recv_object_bytes(group, src, tag);
  if (const auto text = failure_in(out.first.bytes(), out.second)) {
    failures found("send of an object");
    found.add(out.second, *text);
    found.throw_if_any();
  }
  return out;
}

}  // namespace troupe::groups
