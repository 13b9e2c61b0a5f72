#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

namespace rnn {

/// A text in numbers. Word 0 stands for all that have no number of their own; the others are in the
/// order of how frequent they are in what is learnt from.
struct corpus {
  std::int64_t words = 0;  ///< how many numbers there are
  at::Tensor train;        ///< int64 [n]: what is learnt from
  at::Tensor test;         ///< int64 [n]: what is held out
};

/// Takes words with the lines that `lines_of_words` gives. Of every thousand lines the last fifty
/// are held out: 5 %, from all over the text. At most `vocabulary` numbers; of words that are
/// equally frequent, the one that comes first has the smaller number. Throws
/// troupe::invalid_argument for a text of less than a thousand lines.
corpus make_corpus(const std::vector<std::vector<std::string>>& lines, std::int64_t vocabulary);

/// How well one does who knows how frequent each word is, and nothing else: the perplexity of the
/// test. Each word is counted once more than it is there, so that none is impossible.
double unigram_perplexity(const corpus& text);

}  // namespace rnn
