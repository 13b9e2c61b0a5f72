#include "actors/profiling.hpp"

#include <ATen/record_function.h>

#include <string>

#include "actors/rref/rref_core.hpp"

namespace troupe::detail {

namespace {

// Ends the range when its call does.
class ranged_sink final : public reply_sink {
public:
  ranged_sink(std::shared_ptr<reply_sink> to, std::shared_ptr<at::RecordFunction> range)
      : to_(std::move(to)), range_(std::move(range)) {}

  void on_value(opened_envelope& answer) noexcept override {
    end();
    to_->on_value(answer);
  }
  void on_fault(fault&& why) noexcept override {
    end();
    to_->on_fault(std::move(why));
  }
  void on_expiry(fault&& why) noexcept override {
    end();
    to_->on_expiry(std::move(why));
  }

private:
  // A late answer comes when it has ended.
  void end() noexcept {
    if (const auto range = std::exchange(range_, nullptr)) range->end();
  }

  const std::shared_ptr<reply_sink> to_;
  std::shared_ptr<at::RecordFunction> range_;
};

std::string range_name(std::string_view what, std::string_view function, std::string_view caller,
                       std::string_view callee) {
  std::string name(what);
  name.append("#").append(function).append("(").append(caller);
  return name.append(" -> ").append(callee).append(")");
}

}  // namespace

std::int64_t range_number(transport::rank_t caller, std::uint64_t request) noexcept {
  if (request == 0) return -1;  // libtorch's for none
  constexpr std::uint64_t low = 0xffffff;
  const auto place = request & low, generation = request >> 32 & low;
  return static_cast<std::int64_t>((std::uint64_t{caller} & 0x7fff) << 48 | generation << 24 |
                                   place);
}

caller_range::caller_range(std::shared_ptr<reply_sink>& sink) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) return;
  range_ = std::make_shared<at::RecordFunction>(std::move(*callbacks));
  creates_ = dynamic_cast<const rref_core*>(sink.get()) != nullptr;
  sink = std::make_shared<ranged_sink>(std::move(sink), range_);
}

void caller_range::begin(std::string_view function, std::string_view caller,
                         std::string_view callee, std::int64_t number) {
  if (!range_) return;
  range_->before(range_name(creates_ ? "rpc_remote" : "rpc_async", function, caller, callee),
                 number);
  range_->_setAsync();
}

callee_range::callee_range(std::string_view function, std::string_view caller,
                           std::string_view callee, std::int64_t number) {
  auto callbacks = at::getStepCallbacksUnlessEmpty(at::RecordScope::USER_SCOPE);
  if (!callbacks) return;
  range_ = std::make_unique<at::RecordFunction>(std::move(*callbacks));
  range_->before(range_name("rpc", function, caller, callee), number);
}

callee_range::~callee_range() = default;

}  // namespace troupe::detail
