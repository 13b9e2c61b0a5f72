#include "troupe/apps/rnn/batches.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "troupe/messages/base/error.hpp"

namespace rnn {

batches::batches(const at::Tensor& text, std::int64_t streams, std::int64_t length)
    : length_(length) {
  const auto each = text.size(0) / streams;
  if (each < 2)
    throw troupe::invalid_argument(
        fmt::format("{} words are too few to be read in {} streams", text.size(0), streams));
  streams_ = text.slice(0, 0, each * streams).view({streams, each}).t().contiguous();
  steps_ = each - 1;
}

batch batches::operator[](std::int64_t i) const {
  const auto first = i * length_, end = std::min(first + length_, steps_);
  return {streams_.slice(0, first, end), streams_.slice(0, first + 1, end + 1).reshape({-1})};
}

}  // namespace rnn
