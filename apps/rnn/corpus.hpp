#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace rnn {

/// A text in numbers. Number 0 is that of all words without one of their own; the others are in the
/// order of their frequency in `train`.
struct corpus {
  std::int64_t words = 0;  ///< how many numbers there are
  at::Tensor train;        ///< int64 [n]: what is learnt from
  at::Tensor test;         ///< int64 [n]: what is held out
};

/// Takes words with the lines that `lines_of_words` gives. Of every thousand lines the last fifty
/// are held out: 5 %, from all over the text. At most `vocabulary` numbers; of words that are
/// equally frequent, the first one has the smaller number. Throws
/// troupe::invalid_argument for a text of less than a thousand lines.
corpus make_corpus(const std::vector<std::vector<std::string>>& lines, std::int64_t vocabulary);

/// The perplexity of the test for a model that knows the frequency of each word and nothing else.
/// Each word is counted once more than it occurs, so that none is impossible (Laplace smoothing).
double unigram_perplexity(const corpus& text);

}  // namespace rnn
