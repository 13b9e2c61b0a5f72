#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::trace {

enum class progress : std::uint8_t { scheduled, started, completed, failed };

/// One operation of one rank, as its flight recorder had it.
struct traced_operation {
  std::string kind;
  progress state = progress::scheduled;
  std::uint64_t sequence = 0;  ///< 0: of a send or recv; monitored barriers have their own
  std::string dtype;
  std::string reduction;  ///< empty: it combines nothing
  std::uint64_t inputs = 0, outputs = 0;
  std::optional<std::int64_t> root, peer;
  std::int64_t tag = 0;
  std::int64_t started_ns = 0, ended_ns = 0;

  bool has_ended() const { return state == progress::completed || state == progress::failed; }
};

/// What one rank of a group has written (`process_group::trace`, TROUPE_TRACE_DIR).
struct dump {
  std::string file;
  std::string group;
  std::string description;
  std::string failure;  ///< empty: the group had not failed
  std::uint32_t rank = 0;
  std::vector<std::string> members;  ///< names, by rank
  std::vector<traced_operation> operations;
  /// Of collectives: the last that was asked for, and the last that was completed. Older ones than
  /// those in `operations` are known by these alone.
  std::uint64_t asked = 0, completed = 0;

  /// The member's name; empty if there is no such rank.
  const std::string& name_of(std::uint32_t rank) const;
};

/// Reads one. Trusts nothing in `text`: throws invalid_argument, which names `file` and what is
/// wrong with it. Texts of a dump keep no control characters.
dump read_dump(const std::string& text, const std::string& file);

/// Reads files, and all *.json of folders. Throws invalid_argument if one cannot be read or is no
/// dump, if there is none, or if two are of the same rank.
std::vector<dump> read_dumps(const std::vector<std::string>& paths);

}  // namespace troupe::trace
