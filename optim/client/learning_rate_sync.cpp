#include "troupe/optim/client/learning_rate_sync.hpp"

#include <fmt/format.h>

#include "troupe/messages/base/forked.hpp"

namespace troupe::detail {

learning_rate_sync::delivery::~delivery() {
  if (from_ && !forked::from_nodes()) from_->lost(rates_);  // a fork may have left the mutex locked
}

torch::optim::Optimizer& learning_rate_sync::proxy(const optimizer_kind& kind,
                                                   const std::vector<archive_values>& groups) {
  forked::check();
  const std::lock_guard lock(mutex_);
  if (!proxy_) make(kind, groups);
  return *proxy_;
}

void learning_rate_sync::make(const optimizer_kind& kind,
                              const std::vector<archive_values>& groups) {
  optimizer_kind::groups all;
  for (const auto& one : groups)
    all.emplace_back(std::vector<at::Tensor>(), options_from(kind, one));
  proxy_ = std::make_unique<scheduler_proxy>(all, kind.some_options());
  take_rates();
}

// The shards have the rates of the proxy.
void learning_rate_sync::take_rates() {
  sent_.clear();
  for (const auto& group : proxy_->param_groups()) sent_.push_back({group.options().get_lr()});
}

learning_rate_sync::delivery learning_rate_sync::next_delivery(id_maker make_id) {
  forked::check();
  const std::lock_guard lock(mutex_);
  return proxy_ ? collect(make_id) : delivery();
}

// Does not allocate unless a rate has changed.
learning_rate_sync::delivery learning_rate_sync::collect(id_maker make_id) {
  learning_rates out;
  for (std::uint32_t group = 0; group < sent_.size(); ++group) {
    auto& last = sent_[group];
    const auto now = options_of(group).get_lr();
    if (now == last.rate && !last.must_resend) continue;
    last = {now, last_number_ + 1};
    out.changed.push_back({group, now});
  }
  if (out.changed.empty()) return {};
  if (id_ == 0) id_ = make_id();
  out.from = id_;
  out.number = ++last_number_;
  return {shared_from_this(), std::move(out)};
}

learning_rate_sync::delivery learning_rate_sync::set(std::optional<std::size_t> group, double rate,
                                                     id_maker make_id) {
  forked::check();
  const std::lock_guard lock(mutex_);
  if (group) (void)options_of(*group);  // throws if there is none
  const auto first = group.value_or(0);
  const auto end = group ? first + 1 : sent_.size();
  for (auto one = first; one < end; ++one) {
    options_of(one).set_lr(rate);
    sent_[one].must_resend = true;
  }
  return collect(make_id);
}

double learning_rate_sync::rate_of(std::size_t group) const {
  forked::check();
  const std::lock_guard lock(mutex_);
  return options_of(group).get_lr();
}

torch::optim::OptimizerOptions& learning_rate_sync::options_of(std::size_t group) const {
  auto& all = proxy_->param_groups();
  if (group >= all.size())
    throw invalid_argument(fmt::format("no group {}: there are {}", group, all.size()));
  return all[group].options();
}

// Not where a newer rate has been sent: that one is lost too, or has arrived. Then another node may
// have set another one since.
void learning_rate_sync::lost(const learning_rates& rates) noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& one : rates.changed)
    if (one.group < sent_.size() && sent_[one.group].number == rates.number)
      sent_[one.group].must_resend = true;
}

// Schedulers hold a reference to the proxy: it stays where it is.
void learning_rate_sync::replace(const optimizer_kind& kind,
                                 const std::vector<archive_values>& groups) {
  forked::check();
  const std::lock_guard lock(mutex_);
  if (!proxy_) return make(kind, groups);
  for (std::size_t i = 0; i < groups.size(); ++i)
    proxy_->param_groups()[i].set_options(options_from(kind, groups[i]));
  take_rates();
}

}  // namespace troupe::detail
