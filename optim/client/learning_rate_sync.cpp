#include "troupe/optim/client/learning_rate_sync.hpp"

#include "troupe/messages/base/forked.hpp"

namespace troupe::detail {

learning_rate_sync::delivery::~delivery() {
  if (from_ && !forked::from_nodes()) from_->lost();  // a fork may have left the mutex locked
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
  sent_ = rates_now();
}

learning_rate_sync::delivery learning_rate_sync::next_delivery() {
  forked::check();
  const std::lock_guard lock(mutex_);
  if (!proxy_) return {};
  auto now = rates_now();
  if (now == sent_ && !must_resend_) return {};
  sent_ = now;
  must_resend_ = false;
  return {shared_from_this(), std::move(now)};
}

// Newer rates may have been sent meanwhile: sending those again does no harm.
void learning_rate_sync::lost() noexcept {
  const std::lock_guard lock(mutex_);
  must_resend_ = true;
}

std::vector<double> learning_rate_sync::rates_now() const {
  std::vector<double> out;
  for (const auto& group : proxy_->param_groups()) out.push_back(group.options().get_lr());
  return out;
}

// Schedulers hold a reference to the proxy: it stays where it is.
void learning_rate_sync::replace(const optimizer_kind& kind,
                                 const std::vector<archive_values>& groups) {
  forked::check();
  const std::lock_guard lock(mutex_);
  must_resend_ = false;
  if (!proxy_) return make(kind, groups);
  for (std::size_t i = 0; i < groups.size(); ++i)
    proxy_->param_groups()[i].set_options(options_from(kind, groups[i]));
  sent_ = rates_now();
}

}  // namespace troupe::detail
