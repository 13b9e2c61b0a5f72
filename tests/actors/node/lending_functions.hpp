#pragma once

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <troupe/troupe.hpp>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "tests/mapped_regions.hpp"
#include "troupe/messages/memory/copy_on_write.hpp"

namespace troupe::test {

/// A hash of a tensor's elements in their order.
inline std::uint64_t digest(const at::Tensor& t) {
  const auto flat = t.contiguous();
  const auto* const bytes = static_cast<const unsigned char*>(flat.const_data_ptr());
  const auto size = static_cast<std::size_t>(flat.numel()) * flat.itemsize();
  std::uint64_t hash = 1469598103934665603ULL + size;
  for (std::size_t i = 0; i + 8 <= size; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    hash = (hash ^ word) * 1099511628211ULL;
  }
  for (auto i = size / 8 * 8; i < size; ++i) hash = (hash ^ bytes[i]) * 1099511628211ULL;
  return hash;
}

/// The tensors of a process, each with a deep copy of what it must hold.
class tensor_box {
public:
  using random = std::mt19937_64;

  /// The same view of a tensor and of its copy.
  template <class F>
  static at::Tensor view(at::Tensor t, F& random) {
    if (t.dim() == 2 && random() % 2) t = t.transpose(0, 1);
    if (t.dim() > 0 && t.size(0) > 1 && random() % 2) {
      const auto first = static_cast<std::int64_t>(random() % (t.size(0) / 2 + 1));
      t = t.slice(0, first, t.size(0), random() % 8 == 0 ? 2 : 1);
    }
    return t;
  }

  static std::pair<at::Tensor, at::Tensor> same_view(const at::Tensor& t, const at::Tensor& copy,
                                                     random& r) {
    auto again = r;
    return {view(t, r), view(copy, again)};
  }

  struct entry {
    at::Tensor tensor;
    at::Tensor copy;
    bool constant = false;  ///< an answer is being made of it
  };

  entry& any(random& r) {
    if (entries_.size() < 4) return make(r);
    return entries_[r() % entries_.size()];
  }

  entry& make(random& r) {
    static const c10::ScalarType types[] = {at::kFloat, at::kDouble, at::kLong,        at::kInt,
                                            at::kByte,  at::kHalf,   at::kComplexFloat};
    const auto rows = static_cast<std::int64_t>(r() % 300);
    const auto columns = static_cast<std::int64_t>(r() % 4 == 0 ? 1 + r() % 2000 : 1 + r() % 30);
    auto t = at::empty({rows, columns}, types[r() % std::size(types)]);
    const auto byte = static_cast<int>(r() % 3);
    // Small numbers: none is a NaN, so that equal tensors are equal.
    if (t.numel() > 0)
      std::memset(t.mutable_data_ptr(), byte, static_cast<std::size_t>(t.numel()) * t.itemsize());
    if (r() % 2) t = t.reshape({-1});
    return add(t);
  }

  entry& add(const at::Tensor& t) {
    if (entries_.size() >= 24) entries_.erase(entries_.begin());
    entries_.push_back({t, t.clone()});
    return entries_.back();
  }

  entry& last() { return entries_.back(); }

  static void write(entry& e, random& r) {
    if (e.constant || e.tensor.numel() == 0) return;
    const auto [t, copy] = same_view(e.tensor, e.copy, r);
    if (t.numel() == 0) return;
    const auto value = static_cast<std::int64_t>(r() % 100);
    for (const auto& one : {t, copy}) one.fill_(value);
  }

  static void check(const entry& e) {
    if (!at::equal(e.tensor, e.copy)) throw std::runtime_error("a tensor is not what it was");
  }

  void check_all() const {
    for (const auto& one : entries_) check(one);
  }
  void drop_one(random& r) {
    if (!entries_.empty())
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(r() % entries_.size()));
  }
  void clear() { entries_.clear(); }

  std::mutex mutex;

private:
  std::vector<entry> entries_;
};

inline tensor_box& box() {
  static tensor_box one;
  return one;
}

using some_tensors = std::pair<std::vector<at::Tensor>, std::vector<std::uint64_t>>;

inline void keep_checked(const some_tensors& given, tensor_box::random& r) {
  for (std::size_t i = 0; i < given.first.size(); ++i)
    if (digest(given.first[i]) != given.second[i])
      throw std::runtime_error("a tensor of " + std::to_string(given.first[i].nbytes()) +
                               " bytes is not what was sent");
  // The others may be views of the same storage: a write to the one would be one to them.
  box().add(given.first.at(0));
  for (std::size_t i = 1; i < given.first.size(); ++i) box().add(given.first[i].clone());
  if (given.first.size() == 1 && r() % 2) tensor_box::write(box().last(), r);
}

inline some_tensors choose(tensor_box::random& r, bool constant) {
  some_tensors out;
  for (auto count = 1 + r() % 3; count > 0; --count) {
    auto& e = box().any(r);
    e.constant = e.constant || constant;
    const auto [t, copy] = tensor_box::same_view(e.tensor, e.copy, r);
    out.first.push_back(t);
    out.second.push_back(digest(copy));
  }
  return out;
}

/// Takes tensors, keeps them, and answers with others.
inline some_tensors exchange(const some_tensors& given, std::uint64_t seed) {
  tensor_box::random r(seed);
  const std::lock_guard lock(box().mutex);
  keep_checked(given, r);
  box().check_all();
  return choose(r, true);
}

/// Sends, writes, keeps and drops tensors for so many steps.
inline bool wander(std::uint64_t seed, int steps, std::uint32_t world_size) {
  tensor_box::random r(seed);
  const auto here = this_node();
  const auto self = here.get_worker_info().id;
  for (int i = 0; i < steps; ++i) {
    const auto to = static_cast<std::int64_t>((self + 1 + r() % (world_size - 1)) % world_size);
    std::optional<future<some_tensors>> answer;
    {
      const std::lock_guard lock(box().mutex);
      if (r() % 4 == 0) box().make(r);
      tensor_box::write(box().any(r), r);
      const auto given = choose(r, false);
      answer.emplace(here.rpc_async<&exchange>(to, given, r()));
      tensor_box::write(box().any(r), r);  // what was sent stays as it was
    }
    const auto got = answer->get();
    const std::lock_guard lock(box().mutex);
    keep_checked(got, r);
    if (r() % 2) box().drop_one(r);
    box().check_all();
  }
  return true;
}

inline at::Tensor give_back(at::Tensor x) { return x; }
inline std::uint64_t copies_here() { return copy_on_write::count().copies; }
inline at::Tensor add_one(at::Tensor x) { return x.add_(1); }
inline at::Tensor double_it(at::Tensor x) { return x.mul_(2); }
inline std::vector<at::Tensor> add_one_to_each(std::vector<at::Tensor> all) {
  for (auto& one : all) one.add_(1);
  return all;
}
inline at::Tensor make(std::int64_t floats) { return at::full({floats}, 1.0F); }

inline std::uint64_t length_of(const std::string& text) { return text.size(); }

inline rref<at::Tensor> offer_count(std::int64_t integers) {
  return this_node().make_rref(at::arange(integers));
}

inline std::int64_t ends_of(const at::Tensor& x) {
  return x.const_data_ptr<std::int64_t>()[0] + x.const_data_ptr<std::int64_t>()[x.numel() - 1];
}

/// A tensor that this process keeps and counts in.
inline at::Tensor kept_counter(std::int64_t step) {
  static auto counter = at::full({1 << 20}, 0, at::kLong);
  return counter.add_(step);
}

using adder = caf::typed_actor<caf::replies_to<at::Tensor>::with<std::int64_t>>;
inline adder adder_here() {
  return this_node().spawn([]() -> adder::behavior_type {
    return {[](at::Tensor x) {
      x.add_(1);
      return x.const_data_ptr<std::int64_t>()[0] + x.const_data_ptr<std::int64_t>()[x.numel() - 1];
    }};
  });
}

/// An object that reads tensors, and keeps none.
class reader_of_tensors {
public:
  std::int64_t read(const at::Tensor& x) { return seen_ = ends_of(x); }
  void take(at::Tensor x) { seen_ = ends_of(x); }

private:
  std::int64_t seen_ = 0;
};

/// Sends a tensor to an object on another node again and again, and writes to it in between. How
/// many of the writes had to copy it.
inline std::uint64_t copies_beside_an_object(std::int64_t to, int rounds) {
  const auto object = this_node().remote<reader_of_tensors>(to);
  auto t = at::arange(1 << 20);
  const auto before = copy_on_write::count().copies;
  for (int i = 0; i < rounds; ++i) {
    if (object.rpc_sync<&reader_of_tensors::read>(t) != 2 * i + (1 << 20) - 1)
      throw std::runtime_error("an object has read another tensor");
    t.add_(1);
    object.rpc_sync<&reader_of_tensors::take>(t);
    t.sub_(1);
    object.remote<&reader_of_tensors::read>(t).to_here();
    t.add_(1);
  }
  return copy_on_write::count().copies - before;
}

inline void hold(at::Tensor x) {
  const std::lock_guard lock(box().mutex);
  box().add(x);
}

/// Has another node hold it.
inline void hold_at(const std::string& name, const at::Tensor& x) {
  this_node().rpc_sync<&hold>(name, x);
}

inline bool let_go() {
  const std::lock_guard lock(box().mutex);
  box().check_all();
  box().clear();
  return true;
}

/// Bytes that this node has lent and borrowed, and those of the arena that are in use.
inline std::pair<std::uint64_t, std::uint64_t> loans_and_in_use() {
  const auto all = this_node().debug_info();
  return {all.traffic.lent + all.traffic.borrowed, all.tensors.in_use};
}

/// The same for people.
inline std::string loans_and_memory() {
  const auto all = this_node().debug_info();
  return std::to_string(all.traffic.lent) + " bytes lent, " + std::to_string(all.traffic.borrowed) +
         " borrowed, " + std::to_string(all.tensors.in_use) + " in use";
}

}  // namespace troupe::test
