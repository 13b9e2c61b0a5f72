#include "troupe/actors/groups/network/network_backend.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "troupe/actors/groups/network/collective_run.hpp"
#include "troupe/actors/groups/reduction/reduction.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups::network {

namespace {

std::span<const std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()};
}

std::byte* memory_of(const at::Tensor& tensor) {
  return static_cast<std::byte*>(tensor.mutable_data_ptr());
}

// All that of some tensors, one after the other: the memory of one alone, or a copy.
class joined_bytes {
public:
  explicit joined_bytes(std::span<const at::Tensor> tensors) : tensors_(tensors) {
    if (tensors.size() == 1) return;
    std::size_t size = 0;
    for (const auto& one : tensors) size += one.nbytes();
    copy_ = byte_buffer(size);
    auto* to = memory_of(copy_);
    for (const auto& one : tensors) {
      std::memcpy(to, one.const_data_ptr(), one.nbytes());
      to += one.nbytes();
    }
  }

  std::span<const std::byte> bytes() const { return bytes_of(whole()); }
  std::byte* memory() const { return memory_of(whole()); }

  // What was written to `memory` goes to the tensors.
  void put_back() const {
    if (tensors_.size() == 1) return;
    const auto* from = static_cast<const std::byte*>(copy_.const_data_ptr());
    for (const auto& one : tensors_) {
      std::memcpy(memory_of(one), from, one.nbytes());
      from += one.nbytes();
    }
  }

private:
  const at::Tensor& whole() const { return tensors_.size() == 1 ? tensors_[0] : copy_; }

  std::span<const at::Tensor> tensors_;
  at::Tensor copy_;
};

void copy_to(std::byte* to, std::span<const std::byte> bytes) {
  if (!bytes.empty() && to != bytes.data()) std::memmove(to, bytes.data(), bytes.size());
}

// One collective of one rank: the algorithms.
class algorithms {
public:
  algorithms(group_channel& channel, const operation& what, const time_limit& limit)
      : run_(channel, what, limit),
        what_(what),
        me_(channel.rank()),
        size_(channel.size()),
        element_(what.dtype == c10::ScalarType::Undefined ? 1 : c10::elementSize(what.dtype)) {}

  void carry_out() {
    switch (what_.kind) {
      case operation_kind::barrier: return run_.enter({});
      case operation_kind::broadcast: return broadcast();
      case operation_kind::all_reduce: return all_reduce();
      case operation_kind::reduce: return reduce();
      case operation_kind::all_gather: return all_gather();
      case operation_kind::all_gather_into_tensor: return all_gather_into_tensor();
      case operation_kind::gather: return gather();
      case operation_kind::scatter: return scatter();
      case operation_kind::reduce_scatter: return reduce_scatter();
      case operation_kind::reduce_scatter_tensor: return reduce_scatter_tensor();
      case operation_kind::all_to_all: return all_to_all();
      case operation_kind::all_to_all_single: return all_to_all_single();
      case operation_kind::send:
      case operation_kind::recv:
      case operation_kind::monitored_barrier: break;
    }
    throw invalid_argument(std::string(to_string(what_.kind)) + " is no collective");
  }

private:
  static bool is_small(std::size_t bytes) noexcept {
    return bytes <= network_backend::most_with_entry;
  }

  // A binomial tree, whose root has number 0.
  void broadcast() {
    const joined_bytes all(what_.outputs);
    const auto bytes = all.bytes();
    const bool root = me_ == what_.root;
    if (is_small(bytes.size())) {
      run_.enter(root ? bytes : std::span<const std::byte>());
      if (!root) put(all, checked(run_.data_of(what_.root), bytes.size()));
      return;
    }
    run_.enter({});
    const int mine = (me_ - what_.root + size_) % size_;
    int step = 1;
    while (step < size_ && !(mine & step)) step *= 2;
    packet content;
    if (root)
      content = packet(bytes);
    else
      content = run_.receive(1, rank_at(mine - step), bytes.size());
    for (step /= 2; step > 0; step /= 2)
      if (mine + step < size_) run_.send(1, rank_at(mine + step), content);
    if (!root) put(all, content.bytes());
  }

  int rank_at(int number) const noexcept { return (number + what_.root) % size_; }

  static void put(const joined_bytes& to, std::span<const std::byte> bytes) {
    copy_to(to.memory(), bytes);
    to.put_back();
  }

  std::span<const std::byte> checked(std::span<const std::byte> bytes, std::size_t size) const {
    if (bytes.size() != size) throw decode_error("an entry has other data than it says");
    return bytes;
  }

  // Small: each rank gets all, and combines them. Large: each rank combines its slice, and all get
  // the slices (Rabenseifner's reduce-scatter and all-gather, in one step each).
  void all_reduce() {
    const joined_bytes all(what_.outputs);
    const auto bytes = all.bytes();
    auto* const memory = all.memory();
    const auto count = static_cast<std::int64_t>(bytes.size() / element_);
    std::vector<const std::byte*> sources(static_cast<std::size_t>(size_));
    if (is_small(bytes.size())) {
      run_.enter(bytes);
      for (int rank = 0; rank < size_; ++rank)
        source(sources, rank) =
            rank == me_ ? bytes.data() : checked(run_.data_of(rank), bytes.size()).data();
      combine(sources, memory, count);
      all.put_back();
      return;
    }
    run_.enter({});
    for (int to = 0; to < size_; ++to)
      if (to != me_) run_.send(1, to, slice(bytes, to));
    const auto mine = slice(bytes, me_);
    auto* const result = memory + (mine.data() - bytes.data());
    combine_with_others(1, mine, result);
    const packet content{std::span<const std::byte>(result, mine.size())};
    for (int to = 0; to < size_; ++to)
      if (to != me_) run_.send(2, to, content);
    for (int from = 0; from < size_; ++from) {
      if (from == me_) continue;
      const auto part = slice(bytes, from);
      copy_to(memory + (part.data() - bytes.data()), run_.receive(2, from, part.size()).bytes());
    }
    all.put_back();
  }

  // The part of `bytes` that `rank` combines.
  std::span<const std::byte> slice(std::span<const std::byte> bytes, int rank) const {
    const auto count = bytes.size() / element_;
    const auto ranks = static_cast<std::size_t>(size_);
    const auto at = static_cast<std::size_t>(rank);
    const auto begin = count * at / ranks, end = count * (at + 1) / ranks;
    return bytes.subspan(begin * element_, (end - begin) * element_);
  }

  // Those of a stage, and this rank's own, into `result`.
  void combine_with_others(std::uint32_t stage, std::span<const std::byte> mine,
                           std::byte* result) {
    std::vector<packet> parts(static_cast<std::size_t>(size_));
    std::vector<const std::byte*> sources(static_cast<std::size_t>(size_));
    for (int from = 0; from < size_; ++from) {
      auto& content = parts[static_cast<std::size_t>(from)];
      if (from != me_) content = run_.receive(stage, from, mine.size());
      source(sources, from) = from == me_ ? mine.data() : content.bytes().data();
    }
    combine(sources, result, static_cast<std::int64_t>(mine.size() / element_));
  }

  static const std::byte*& source(std::vector<const std::byte*>& sources, int rank) {
    return sources[static_cast<std::size_t>(rank)];
  }

  void combine(const std::vector<const std::byte*>& sources, std::byte* to,
               std::int64_t count) const {
    if (count == 0) return;
    const reduction how(to_string(what_.kind), what_.reduction, what_.dtype);
    how.run(sources, std::span<std::byte* const>(&to, 1), count, store_mode::cached,
            run_.factors().data());
  }

  void reduce() {
    run_.enter({});
    const auto mine = bytes_of(what_.inputs[0]);
    if (me_ != what_.root) return run_.send(1, what_.root, mine);
    combine_with_others(1, mine, memory_of(what_.outputs[0]));
  }

  void all_gather() {
    const auto mine = bytes_of(what_.inputs[0]);
    send_to_all_and_take(mine, [&](int from) {
      const auto& to = what_.outputs[static_cast<std::size_t>(from)];
      return std::span(memory_of(to), to.nbytes());
    });
  }

  void all_gather_into_tensor() {
    for (std::size_t i = 0; i < what_.inputs.size(); ++i) {
      const auto mine = bytes_of(what_.inputs[i]);
      const auto take = [&](int from) {
        auto* const begin = memory_of(what_.outputs[i]);
        return std::span(begin + static_cast<std::size_t>(from) * mine.size(), mine.size());
      };
      if (i == 0)
        send_to_all_and_take(mine, take);
      else
        exchange_all(static_cast<std::uint32_t>(i + 1), mine, take);
    }
    if (what_.inputs.empty()) run_.enter({});
  }

  // Small contributions travel with the entry: all ranks give as many bytes, or each says how many.
  template <class Place>
  void send_to_all_and_take(std::span<const std::byte> mine, const Place& place_of) {
    const bool uniform = what_.kind == operation_kind::all_gather_into_tensor;
    if (!uniform || !is_small(mine.size())) {
      run_.enter({});
      return exchange_all(1, mine, place_of);
    }
    run_.enter(mine);
    for (int from = 0; from < size_; ++from) {
      const auto to = place_of(from);
      copy_to(to.data(), from == me_ ? mine : checked(run_.data_of(from), to.size()));
    }
  }

  template <class Place>
  void exchange_all(std::uint32_t stage, std::span<const std::byte> mine, const Place& place_of) {
    const packet content(mine);
    for (int to = 0; to < size_; ++to)
      if (to != me_) run_.send(stage, to, content);
    for (int from = 0; from < size_; ++from) {
      const auto to = place_of(from);
      if (from == me_)
        copy_to(to.data(), mine);
      else
        copy_to(to.data(), run_.receive(stage, from, to.size()).bytes());
    }
  }

  void gather() {
    run_.enter({});
    const auto mine = bytes_of(what_.inputs[0]);
    if (me_ != what_.root) return run_.send(1, what_.root, mine);
    for (int from = 0; from < size_; ++from) {
      const auto& to = what_.outputs[static_cast<std::size_t>(from)];
      if (from == me_)
        copy_to(memory_of(to), mine);
      else
        copy_to(memory_of(to), run_.receive(1, from, to.nbytes()).bytes());
    }
  }

  void scatter() {
    run_.enter({});
    const auto& mine = what_.outputs[0];
    if (me_ != what_.root)
      return copy_to(memory_of(mine), run_.receive(1, what_.root, mine.nbytes()).bytes());
    for (int to = 0; to < size_; ++to) {
      const auto bytes = bytes_of(what_.inputs[static_cast<std::size_t>(to)]);
      if (to == me_)
        copy_to(memory_of(mine), bytes);
      else
        run_.send(1, to, bytes);
    }
  }

  void reduce_scatter() {
    run_.enter({});
    for (int to = 0; to < size_; ++to)
      if (to != me_) run_.send(1, to, bytes_of(what_.inputs[static_cast<std::size_t>(to)]));
    combine_with_others(1, bytes_of(what_.inputs[static_cast<std::size_t>(me_)]),
                        memory_of(what_.outputs[0]));
  }

  void reduce_scatter_tensor() {
    run_.enter({});
    for (std::size_t i = 0; i < what_.inputs.size(); ++i) {
      const auto stage = static_cast<std::uint32_t>(i + 1);
      const auto all = bytes_of(what_.inputs[i]);
      const auto each = what_.outputs[i].nbytes();
      const auto of = [&](int rank) {
        return all.subspan(static_cast<std::size_t>(rank) * each, each);
      };
      for (int to = 0; to < size_; ++to)
        if (to != me_) run_.send(stage, to, of(to));
      combine_with_others(stage, of(me_), memory_of(what_.outputs[i]));
    }
  }

  void all_to_all() {
    run_.enter({});
    exchange_each([&](int to) { return bytes_of(what_.inputs[static_cast<std::size_t>(to)]); },
                  [&](int from) {
                    const auto& to = what_.outputs[static_cast<std::size_t>(from)];
                    return std::span(memory_of(to), to.nbytes());
                  });
  }

  void all_to_all_single() {
    run_.enter({});
    const auto in = offsets(what_.input_splits), out = offsets(what_.output_splits);
    const auto bytes = bytes_of(what_.inputs[0]);
    auto* const memory = memory_of(what_.outputs[0]);
    exchange_each(
        [&](int to) {
          const auto at = static_cast<std::size_t>(to);
          return bytes.subspan(in[at], in[at + 1] - in[at]);
        },
        [&](int from) {
          const auto at = static_cast<std::size_t>(from);
          return std::span(memory + out[at], out[at + 1] - out[at]);
        });
  }

  // In bytes, of each part and of the end.
  std::vector<std::size_t> offsets(std::span<const std::int64_t> splits) const {
    std::vector<std::size_t> out{0};
    for (const auto one : splits)
      out.push_back(out.back() + static_cast<std::size_t>(one) * element_);
    return out;
  }

  template <class From, class To>
  void exchange_each(const From& bytes_for, const To& place_of) {
    for (int to = 0; to < size_; ++to)
      if (to != me_) run_.send(1, to, bytes_for(to));
    for (int from = 0; from < size_; ++from) {
      const auto to = place_of(from);
      if (from == me_)
        copy_to(to.data(), bytes_for(me_));
      else
        copy_to(to.data(), run_.receive(1, from, to.size()).bytes());
    }
  }

  collective_run run_;
  const operation& what_;
  const int me_;
  const int size_;
  const std::size_t element_;
};

}  // namespace

bool network_backend::supports(operation_kind kind, c10::ScalarType dtype,
                               c10::DeviceType device) const noexcept {
  // Of no tensors, a barrier's or an empty list's, the dtype is undefined.
  return device == c10::DeviceType::CPU && !c10::isQIntType(dtype) &&
         kind != operation_kind::send && kind != operation_kind::recv;
}

void network_backend::run(operation& what, const time_limit& limit) {
  if (auto why = channel_->failure()) std::rethrow_exception(std::move(why));
  algorithms(*channel_, what, limit).carry_out();
}

}  // namespace troupe::groups::network
