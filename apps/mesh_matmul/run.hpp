#pragma once

#include <troupe/collectives.hpp>

#include "troupe/apps/common/status_line.hpp"
#include "troupe/apps/mesh_matmul/record.hpp"

namespace mesh_matmul {

/// All ranks of `world` call it. `line` is for the progress, on one rank; null on others.
run_record run(const troupe::process_group& world, const options& asked, common::status_line* line);

}  // namespace mesh_matmul
