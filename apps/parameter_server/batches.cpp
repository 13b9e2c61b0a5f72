#include "troupe/apps/parameter_server/batches.hpp"

#include <ATen/ops/randperm.h>

#include <algorithm>

#include "troupe/messages/base/error.hpp"

namespace parameter_server {

batches::batches(digits all, std::int64_t size, at::Generator generator)
    : all_(std::move(all)), size_(size), generator_(std::move(generator)) {
  if (size < 1) throw troupe::invalid_argument("a batch has at least one digit");
}

digits batches::next() {
  if (dealt_ == 0) order_ = at::randperm(all_.size(), generator_, at::kLong);
  const auto end = std::min(dealt_ + size_, all_.size());
  const auto places = order_.slice(0, dealt_, end);
  dealt_ = end == all_.size() ? 0 : end;
  return {all_.images.index_select(0, places), all_.labels.index_select(0, places)};
}

}  // namespace parameter_server
