#pragma once

#include <ATen/core/Tensor.h>

namespace rnn {

/// Some words of each stream of a text, and those that follow them.
struct batch {
  at::Tensor words;  ///< int64 [length, streams]
  at::Tensor next;   ///< int64 [length * streams]

  std::int64_t size() const { return next.size(0); }
};

/// A text in so many streams of equal length, which are read side by side: each batch goes on where
/// the one before has ended. What is left over at the end of the text is left out.
class batches {
public:
  /// Throws troupe::invalid_argument for a text of less than two words a stream.
  batches(const at::Tensor& text, std::int64_t streams, std::int64_t length);

  std::int64_t count() const { return (steps_ + length_ - 1) / length_; }
  /// How many words are predicted in all batches.
  std::int64_t words() const { return steps_ * streams_.size(1); }

  /// The last one may be shorter.
  batch operator[](std::int64_t i) const;

private:
  at::Tensor streams_;  // [words of a stream, streams]
  std::int64_t length_;
  std::int64_t steps_;
};

}  // namespace rnn
