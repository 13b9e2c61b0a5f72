#pragma once

#include <fmt/format.h>

#include <string_view>

#include "troupe/messages/base/error.hpp"

// Checks of optimizers' options. All throw invalid_argument, which names the optimizer, the option
// and its value; they refuse NaN.
namespace troupe::detail {

[[noreturn]] inline void refuse_option(std::string_view optimizer, std::string_view option,
                                       double value, std::string_view wanted) {
  throw invalid_argument(
      fmt::format("{} of {} is {}: it has to be {}", option, optimizer, value, wanted));
}

inline void expect_at_least_0(std::string_view optimizer, std::string_view option, double value) {
  if (!(value >= 0)) refuse_option(optimizer, option, value, "at least 0");
}

/// For the decay rates of averages, such as Adam's betas.
inline void expect_below_1(std::string_view optimizer, std::string_view option, double value) {
  if (!(value >= 0 && value < 1))
    refuse_option(optimizer, option, value, "at least 0 and less than 1");
}

}  // namespace troupe::detail
