#pragma once

namespace troupe::detail {

/// Named in every program with nodes, so that it has the functions by which others read and write
/// parts of its tensors (rref::read), whether or not it does the same itself.
bool serves_tensor_reads();

}  // namespace troupe::detail
