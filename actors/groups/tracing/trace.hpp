#pragma once

#include <exception>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/backend.hpp"
#include "troupe/actors/groups/tracing/flight_recorder.hpp"

namespace troupe::groups {

/// What a trace says about its group, beside the operations.
struct trace_header {
  std::string group;
  std::string description;
  int rank = 0;
  std::vector<group_member> members;
  std::exception_ptr failure;  ///< nullptr: the group has not failed
  /// Of collectives, which may be older than the operations that are kept; 0: none.
  std::uint64_t last_sequence = 0, last_completed = 0;
};

/// The trace of one rank as JSON: {"version": 1, "group": ..., "rank": 0, "members": [{"rank": 0,
/// "node": 0, "name": "worker0"}, ...], "failure": "" or its text, "last_sequence": 1,
/// "last_completed": 1, "operations": [{"id": 1, "kind": "all_reduce", "state": "completed",
/// "sequence": 1, "dtype": "Float", "reduction": "sum", "inputs": 0, "outputs": 10, "root": 0,
/// "peer": 0, "tag": 0, "scheduled_ns": ..., "started_ns": ..., "ended_ns": ...}, ...]}. Of
/// reduction, root, peer and tag an operation has those that its kind has. At debug level `detail`
/// also "input_shapes" and "output_shapes" ("[2, 5], [0]") and "stack", where it was called. Times
/// are of the host's steady clock.
std::string trace_json(const trace_header& about, const std::vector<operation_record>& operations);

/// Writes it to DIRECTORY/GROUP_rankN.json, whole or not at all. Returns the file's name. Throws
/// std::system_error.
std::string write_trace_file(const std::string& directory, const trace_header& about,
                             const std::vector<operation_record>& operations);

}  // namespace troupe::groups
