#include "troupe/optim/client/scheduler_proxy.hpp"

#include "troupe/messages/base/forked.hpp"

namespace troupe::detail {

torch::optim::Optimizer& rate_desk::local(const optimizer_kind& kind,
                                          const std::vector<archive_values>& groups) {
  forked::check();
  const std::lock_guard lock(mutex_);
  if (!local_) make(kind, groups);
  return *local_;
}

void rate_desk::make(const optimizer_kind& kind, const std::vector<archive_values>& groups) {
  optimizer_kind::groups all;
  for (const auto& one : groups)
    all.emplace_back(std::vector<at::Tensor>(), options_from(kind, one));
  local_ = std::make_unique<stand_in>(all, kind.some_options());
  told_ = rates_now();
}

std::vector<double> rate_desk::news() {
  forked::check();
  const std::lock_guard lock(mutex_);
  if (!local_) return {};
  auto now = rates_now();
  if (now == told_) return {};
  told_ = now;
  return now;
}

std::vector<double> rate_desk::rates_now() const {
  std::vector<double> out;
  for (const auto& group : local_->param_groups()) out.push_back(group.options().get_lr());
  return out;
}

// Schedulers have a reference to the stand-in: it stays where it is.
void rate_desk::replace(const optimizer_kind& kind, const std::vector<archive_values>& groups) {
  forked::check();
  const std::lock_guard lock(mutex_);
  if (!local_) return make(kind, groups);
  for (std::size_t i = 0; i < groups.size(); ++i)
    local_->param_groups()[i].set_options(options_from(kind, groups[i]));
  told_ = rates_now();
}

}  // namespace troupe::detail
