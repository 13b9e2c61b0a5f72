#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "troupe/messages/codec/message_codec.hpp"

namespace troupe::detail {

/// What a reader asks of a parameter_set.
struct pull_request {
  std::uint64_t newer_than = 0;
  bool wait = true;
  std::vector<std::string> names;
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
};
TROUPE_MESSAGE_EXTERN(pull_request, newer_than, wait, names, shard, shards)

/// Its answer: tensors, or the reader's shards of them.
struct pull_answer {
  std::uint64_t version = 0;
  std::vector<std::string> names;
  std::vector<at::Tensor> tensors;
  std::vector<std::uint8_t>
      whole;  ///< not 0: all of the tensor, of which the reader takes its shard
};
TROUPE_MESSAGE_EXTERN(pull_answer, version, names, tensors, whole)

}  // namespace troupe::detail
