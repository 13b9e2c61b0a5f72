#include "troupe/actors/groups/shared/shared_backend.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <atomic>

#include "troupe/actors/groups/shared/lent_operations.hpp"
#include "troupe/actors/groups/shared/process_memory.hpp"
#include "troupe/actors/groups/shared/quarantine.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

// Smaller tensors do not lie in the arena.
constexpr std::size_t smallest_lent_letter = 16 << 10;

tensor_view part_of(const tensor_view& all, std::int64_t first, std::int64_t count) {
  return {all.data + static_cast<std::size_t>(first) * all.element_bytes(), all.dtype, count};
}

class shared_backend final : public backend {
public:
  explicit shared_backend(std::unique_ptr<host_setup> host)
      : membership_(std::make_shared<membership>(std::move(host))),
        group_(membership_->group),
        lent_(membership_) {
    release_quarantined();
  }

  ~shared_backend() override {
    // Whoever still waits for this rank would do so until its deadline.
    if (!why_) group_.abort("it has left the group");
    group_.leave();
    release_quarantined();
  }

  std::string_view name() const noexcept override { return "shared"; }

  bool supports(operation_kind kind, c10::ScalarType,
                c10::DeviceType device) const noexcept override {
    return kind != operation_kind::send && kind != operation_kind::recv &&
           device == c10::DeviceType::CPU;
  }

  void run(operation& what, const time_limit& limit) override {
    const run_mark mark(*this);
    try {
      carry_out(what, limit);
    } catch (...) {
      if (group_.exposed()) quarantine(what.outputs, [of = membership_] { return of->all_left(); });
      rethrow_cause(what);
      throw;
    }
  }

  bool lends() const noexcept override { return true; }

  std::uint64_t lend(const at::Tensor& tensor, int to) override {
    if (tensor.nbytes() < smallest_lent_letter) return 0;
    lent_.loans().release();
    // Programs may write what they have sent through pointers that they took before, and to the
    // rest of its storage. So usually it is a copy that is lent.
    const bool itself = group_.ways().choose(operation_kind::send, tensor.nbytes()) == way::lend &&
                        2 * tensor.nbytes() >= tensor.storage().nbytes();
    auto lent = tensor;
    if (!itself) {
      lent = at::empty({static_cast<std::int64_t>(tensor.nbytes())}, at::kByte);
      copy_bytes(static_cast<std::byte*>(lent.mutable_data_ptr()),
                 static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes());
    }
    const auto place = lent_.loans().lend_by_message(lent, std::uint64_t{1} << to);
    return place == shared_place::elsewhere ? 0 : place;
  }

  void take_back(std::uint64_t lent) noexcept override { lent_.loans().take_back(lent); }

  void take(std::uint64_t lent, int from, const at::Tensor* into) override {
    // Before it is written: it may be what this rank has lent.
    lent_.loans().release();
    tensor_view to;
    try {
      if (into) to = written_view(*into);
    } catch (...) {
      group_.take_letter(from, lent, {});  // gives it back
      throw;
    }
    group_.take_letter(from, lent, to);
  }

  void abort(std::exception_ptr why) noexcept override {
    std::string text = "it was aborted";
    try {
      std::rethrow_exception(why);
    } catch (const error& e) {
      text = e.fault().text;
    } catch (const std::exception& e) {
      text = e.what();
    } catch (...) {
    }
    {
      const std::lock_guard lock(mutex_);
      if (!why_) why_ = why;
    }
    group_.abort(text);
    // It may never get as far as an operation. See run_mark.
    process_memory::fence();
    if (!runs_.load(std::memory_order_acquire)) group_.leave();
  }

private:
  // An operation is under way. Either `abort` sees that, or the operation sees the abort before it
  // writes into tensors of others: between the mark and that look is the first step, which ends
  // with a fence.
  struct run_mark {
    shared_backend& of;

    explicit run_mark(shared_backend& backend) noexcept : of(backend) {
      of.runs_.store(true, std::memory_order_relaxed);
    }
    ~run_mark() {
      // Release: all that the operation wrote.
      of.runs_.store(false, std::memory_order_release);
      if (of.group_.aborted()) of.group_.leave();
    }
  };

  // What this rank was aborted with comes before what the others say.
  void rethrow_cause(const operation& what) {
    std::exception_ptr why;
    {
      const std::lock_guard lock(mutex_);
      why = why_;
    }
    if (!why || !group_.aborted_because()) return;
    std::rethrow_exception(error_at(
        {membership_->host->setup().group, group_.shown(group_.rank()), what.kind, what.sequence},
        why));
  }

  void carry_out(const operation& what, const time_limit& limit);
  template <class F>
  void for_each(operation_signature& asked, std::span<const at::Tensor> tensors,
                const time_limit& limit, F&& one);
  void compare(const operation_signature& asked, std::span<const at::Tensor> tensors,
               const time_limit& limit);
  void exchange_parts(const operation& what, const operation_signature& asked,
                      const time_limit& limit);

  // One tensor cut into one part for each rank.
  void cut(std::vector<tensor_view>& into, const tensor_view& all, std::int64_t count) const {
    into.clear();
    for (int p = 0; p < group_.size(); ++p) into.push_back(part_of(all, p * count, count));
  }

  const std::shared_ptr<membership> membership_;
  shared_group& group_;
  lent_operations lent_;
  std::atomic<bool> runs_{false};
  std::mutex mutex_;
  std::exception_ptr why_;
  // Views of one operation; used again, so that operations do not allocate.
  std::vector<tensor_view> in_, out_;
  std::vector<std::uint64_t> sizes_;
};

void shared_backend::carry_out(const operation& what, const time_limit& limit) {
  lent_.loans().release();
  auto asked = signature_of(what, group_.size());
  switch (what.kind) {
    case operation_kind::barrier: group_.barrier(asked, limit); break;
    case operation_kind::broadcast:
      for_each(asked, what.outputs, limit, [&](std::size_t i) {
        const auto& one = what.outputs[i];
        if (lent_.broadcast(what, asked, one, limit)) return;
        const auto view = group_.rank() == what.root ? read_view(one) : written_view(one);
        group_.broadcast(asked, view, limit);
      });
      break;
    case operation_kind::all_reduce:
      for_each(asked, what.outputs, limit, [&](std::size_t i) {
        const auto& one = what.outputs[i];
        if (!lent_.result(what, asked, one, one, limit))
          group_.all_reduce(asked, written_view(one), what.factor, limit);
      });
      break;
    case operation_kind::reduce: {
      // The output first: writing may give it memory of its own.
      const auto output = what.outputs.empty() ? tensor_view{} : written_view(what.outputs[0]);
      group_.reduce(asked, read_view(what.inputs[0]), output, what.factor, limit);
      break;
    }
    case operation_kind::all_gather_into_tensor:
      for_each(asked, what.inputs, limit, [&](std::size_t i) {
        if (lent_.result(what, asked, what.inputs[i], what.outputs[i], limit)) return;
        const auto all = written_view(what.outputs[i]);
        const auto mine = read_view(what.inputs[i]);
        cut(out_, all, mine.count);
        group_.move(asked, {&mine, 1}, out_, limit);
      });
      break;
    case operation_kind::reduce_scatter_tensor:
      for_each(asked, what.inputs, limit, [&](std::size_t i) {
        const auto output = written_view(what.outputs[i]);
        cut(in_, read_view(what.inputs[i]), output.count);
        group_.reduce_scatter(asked, in_, output, what.factor, limit);
      });
      break;
    default:
      if (!lent_.lists(what, asked, limit)) exchange_parts(what, asked, limit);
  }
  group_.complete(asked);
}

// Carries out `one` for the index of each tensor; `asked` is then what all ranks ask for that one.
template <class F>
void shared_backend::for_each(operation_signature& asked, std::span<const at::Tensor> tensors,
                              const time_limit& limit, F&& one) {
  compare(asked, tensors, limit);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    asked.elements = static_cast<std::uint64_t>(tensors[i].numel());
    one(i);
  }
}

// Rule 2: none of several tensors is written where another one does not fit. A single one is
// compared by its operation.
void shared_backend::compare(const operation_signature& asked, std::span<const at::Tensor> tensors,
                             const time_limit& limit) {
  if (tensors.size() == 1) return;
  sizes_.clear();
  for (const auto& one : tensors) sizes_.push_back(static_cast<std::uint64_t>(one.numel()));
  group_.compare_sizes(asked, sizes_, limit);
}

void shared_backend::exchange_parts(const operation& what, const operation_signature& asked,
                                    const time_limit& limit) {
  in_.clear();
  out_.clear();
  if (what.kind == operation_kind::all_to_all_single) {
    const auto output = written_view(what.outputs[0]);
    const auto input = read_view(what.inputs[0]);
    std::int64_t from = 0, to = 0;
    for (int p = 0; p < group_.size(); ++p) {
      const auto i = static_cast<std::size_t>(p);
      in_.push_back(part_of(input, from, what.input_splits[i]));
      out_.push_back(part_of(output, to, what.output_splits[i]));
      from += what.input_splits[i];
      to += what.output_splits[i];
    }
  } else {
    for (const auto& one : what.outputs) out_.push_back(written_view(one));
    for (const auto& one : what.inputs) in_.push_back(read_view(one));
  }
  if (what.kind == operation_kind::reduce_scatter)
    group_.reduce_scatter(asked, in_, out_[0], what.factor, limit);
  else
    group_.move(asked, in_, out_, limit);
}

}  // namespace

std::unique_ptr<backend> make_shared_backend(const backend_request& request, std::string& why_not) {
  auto host = host_setup::make(request, why_not);
  if (!host) return nullptr;
  return std::make_unique<shared_backend>(std::move(host));
}

}  // namespace troupe::groups
