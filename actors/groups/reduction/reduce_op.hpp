#pragma once

#include <cstdint>

namespace troupe {

/// How a collective combines the values of the ranks. The values travel; append, never reorder.
enum class reduce_op : std::uint8_t { sum, product, min, max, band, bor, bxor, avg, premul_sum };

}  // namespace troupe
