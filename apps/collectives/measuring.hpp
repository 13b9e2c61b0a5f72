#pragma once

#include <troupe/collectives.hpp>

#include "troupe/apps/collectives/record.hpp"
#include "troupe/apps/common/status_line.hpp"

namespace collectives {

/// Measures all sizes: all ranks of `group` call it, with the same options. `line`, of one rank,
/// gets the table.
run_record measure(const troupe::process_group& group, const options& asked,
                   common::status_line* line);

}  // namespace collectives
