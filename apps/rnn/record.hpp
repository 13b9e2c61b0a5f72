#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace rnn {

/// The result of one reading of the text.
struct epoch_record {
  double learning_rate = 0;
  double train_perplexity = 0;  ///< of the words as they were learnt
  double perplexity = 0;        ///< of the test, after it
  double tokens_per_second = 0;
  std::int64_t steps = 0;  ///< until its end, of all epochs so far
};

/// The result of a run.
struct training_record {
  std::uint64_t seed = 0;
  std::size_t ranks = 1;
  std::int64_t words = 0;         ///< of the vocabulary
  std::int64_t parameters = 0;    ///< of the model
  std::int64_t train_tokens = 0;  ///< of the text
  std::int64_t test_tokens = 0;
  double unigram_perplexity = 0;
  std::int64_t tokens = 0;  ///< learnt from, in all steps
  double seconds = 0;       ///< of the steps alone
  std::vector<epoch_record> epochs{};
  std::vector<float> losses{};  ///< of each step

  double tokens_per_second() const { return seconds > 0 ? double(tokens) / seconds : 0; }
  /// The best of all epochs.
  double perplexity() const;
};

/// "epoch 2: perplexity 81.4, in training 98.2, rate 20, 61,234 tokens/s"
std::string epoch_text(const training_record& record);

/// "perplexity 62.1, of a unigram model 310.4; 5,382,120 tokens in 88.2 s, 61,022/s"
std::string verdict(const training_record& record);

/// The perplexity in training, of up to 300 pieces of the run, and of the tests, as a picture.
std::string to_svg(const training_record& record);

/// The record's numbers as a JSON object, without the losses.
std::string to_json(const training_record& record);

/// A line for each step; what is read back is the same to the last bit.
std::string losses_text(const training_record& record);

}  // namespace rnn
