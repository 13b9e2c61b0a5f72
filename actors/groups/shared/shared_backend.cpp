#include "troupe/actors/groups/shared/shared_backend.hpp"

#include <ATen/core/Tensor.h>

#include <atomic>

#include "troupe/actors/groups/shared/host_setup.hpp"
#include "troupe/actors/groups/shared/process_memory.hpp"
#include "troupe/actors/groups/shared/quarantine.hpp"
#include "troupe/actors/groups/shared/shared_group.hpp"
#include "troupe/messages/base/error.hpp"

namespace troupe::groups {

namespace {

// Reading leaves a lease, or a copy that was not made yet, as it is.
tensor_view read_view(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(const_cast<void*>(tensor.const_data_ptr())), tensor.scalar_type(),
          tensor.numel()};
}
// Rule 1: what is written is this tensor's alone.
tensor_view written_view(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.scalar_type(), tensor.numel()};
}

tensor_view part_of(const tensor_view& all, std::int64_t first, std::int64_t count) {
  return {all.data + static_cast<std::size_t>(first) * all.element_bytes(), all.dtype, count};
}

// What a rank has of its group. Quarantined memory needs it when the backend is gone.
struct membership {
  explicit membership(std::unique_ptr<host_setup> on) : host(std::move(on)), group(host->setup()) {}

  const std::unique_ptr<host_setup> host;
  shared_group group;

  bool all_left() const noexcept { return group.all_left(host->dead()); }
};

class shared_backend final : public backend {
public:
  explicit shared_backend(std::unique_ptr<host_setup> host)
      : membership_(std::make_shared<membership>(std::move(host))), group_(membership_->group) {
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
    std::rethrow_exception(
        error_at({membership_->host->setup().group, group_.rank(), what.kind, what.sequence}, why));
  }

  void carry_out(const operation& what, const time_limit& limit);
  void compare(const operation_signature& asked, std::span<const at::Tensor> tensors,
               const time_limit& limit);
  void gather_into(const operation& what, operation_signature asked, const time_limit& limit);
  void scatter_from(const operation& what, operation_signature asked, const time_limit& limit);
  void exchange_parts(const operation& what, const operation_signature& asked,
                      const time_limit& limit);

  const std::shared_ptr<membership> membership_;
  shared_group& group_;
  std::atomic<bool> runs_{false};
  std::mutex mutex_;
  std::exception_ptr why_;
  // Views of one operation; used again, so that operations do not allocate.
  std::vector<tensor_view> in_, out_;
  std::vector<std::uint64_t> sizes_;
};

void shared_backend::carry_out(const operation& what, const time_limit& limit) {
  auto asked = signature_of(what, group_.size());
  switch (what.kind) {
    case operation_kind::barrier: group_.barrier(asked, limit); break;
    case operation_kind::broadcast:
      compare(asked, what.outputs, limit);
      for (const auto& one : what.outputs) {
        const auto view = group_.rank() == what.root ? read_view(one) : written_view(one);
        asked.elements = static_cast<std::uint64_t>(view.count);
        group_.broadcast(asked, view, limit);
      }
      break;
    case operation_kind::all_reduce:
      compare(asked, what.outputs, limit);
      for (const auto& one : what.outputs) {
        const auto view = written_view(one);
        asked.elements = static_cast<std::uint64_t>(view.count);
        group_.all_reduce(asked, view, what.factor, limit);
      }
      break;
    case operation_kind::reduce: {
      // The output first: writing may give it memory of its own.
      const auto output = what.outputs.empty() ? tensor_view{} : written_view(what.outputs[0]);
      group_.reduce(asked, read_view(what.inputs[0]), output, what.factor, limit);
      break;
    }
    case operation_kind::all_gather_into_tensor: gather_into(what, asked, limit); break;
    case operation_kind::reduce_scatter_tensor: scatter_from(what, asked, limit); break;
    default: exchange_parts(what, asked, limit);
  }
  group_.complete(asked);
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

void shared_backend::gather_into(const operation& what, operation_signature asked,
                                 const time_limit& limit) {
  compare(asked, what.inputs, limit);
  for (std::size_t i = 0; i < what.inputs.size(); ++i) {
    const auto all = written_view(what.outputs[i]);
    const auto mine = read_view(what.inputs[i]);
    asked.elements = static_cast<std::uint64_t>(mine.count);
    out_.clear();
    for (int p = 0; p < group_.size(); ++p)
      out_.push_back(part_of(all, p * mine.count, mine.count));
    group_.move(asked, {&mine, 1}, out_, limit);
  }
}

void shared_backend::scatter_from(const operation& what, operation_signature asked,
                                  const time_limit& limit) {
  compare(asked, what.inputs, limit);
  for (std::size_t i = 0; i < what.inputs.size(); ++i) {
    const auto output = written_view(what.outputs[i]);
    const auto all = read_view(what.inputs[i]);
    asked.elements = static_cast<std::uint64_t>(all.count);
    in_.clear();
    for (int p = 0; p < group_.size(); ++p)
      in_.push_back(part_of(all, p * output.count, output.count));
    group_.reduce_scatter(asked, in_, output, what.factor, limit);
  }
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
