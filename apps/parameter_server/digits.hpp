#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <string_view>

namespace parameter_server {

/// Handwritten digits and what they are.
struct digits {
  at::Tensor images;  ///< float32 [n, 1, 8, 8], from 0 to 1
  at::Tensor labels;  ///< int64 [n], from 0 to 9

  std::int64_t size() const { return labels.size(0); }
};

/// Where the digits are that scikit-learn ships: installed with the program, or where `make setup`
/// puts them.
std::string default_digits_file();

/// Reads digits from a file that holds what `parse_digits` takes, compressed with gzip or not.
///
/// Throws troupe::invalid_argument, which names the file and what is wrong with it; of a file that
/// is not there, the command that fetches it.
digits read_digits(const std::string& path);

/// Takes digits from lines of 65 whole numbers, separated by commas: the 64 pixels of an image, row
/// by row, from 0 to 16, and the digit. Throws troupe::invalid_argument, which names the line.
digits parse_digits(std::string_view text);

/// Digits to learn from, and others to be tested with.
struct digit_split {
  digits train;
  digits test;
};

/// Every fifth digit, from the first on, is for the test: 360 of scikit-learn's 1,797.
digit_split split(const digits& all);

/// Those of `all` that `count` trainers leave to trainer `i`: every count-th, from the i-th on.
digits share_of(const digits& all, std::int64_t i, std::int64_t count);

}  // namespace parameter_server
