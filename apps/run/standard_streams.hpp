#pragma once

namespace troupe::launcher {

/// Opens /dev/null on those of the descriptors 0 to 2 that are closed, so that nothing else takes
/// their numbers: a pipe of ours on 1 would be written to as standard output. Call before anything
/// opens a descriptor. Throws std::system_error when /dev/null cannot be opened.
void open_standard_streams();

}  // namespace troupe::launcher
