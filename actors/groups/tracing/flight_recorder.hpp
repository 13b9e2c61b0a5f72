#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "troupe/actors/groups/backend/operation.hpp"
#include "troupe/actors/sync/futex.hpp"

namespace troupe::groups {

struct call_detail;

/// How far a recorded operation is.
enum class operation_state : std::uint8_t { scheduled, started, completed, failed };

const char* to_string(operation_state state) noexcept;

/// One operation of one rank, as the recorder has it.
struct operation_record {
  std::uint64_t id = 0;  ///< among this rank's operations of the group, from 1 on
  operation_kind kind = operation_kind::barrier;
  operation_state state = operation_state::scheduled;
  reduce_op reduction = reduce_op::sum;
  c10::ScalarType dtype = c10::ScalarType::Undefined;
  std::uint64_t sequence = 0;  ///< 0: of a send or recv; see `operation`
  std::uint64_t inputs = 0;    ///< elements
  std::uint64_t outputs = 0;
  int root = 0;  ///< or the peer of a send or recv
  int tag = 0;
  /// Of the steady clock, up to 10 ms late; 0: not yet.
  std::int64_t scheduled_ns = 0, started_ns = 0, ended_ns = 0;
  std::shared_ptr<const call_detail> detail{};  ///< at debug level `detail`; not of the recorder
};

/// The last operations of one rank of a group. Thread-safe; writing takes no lock and allocates
/// nothing.
class flight_recorder {
public:
  static constexpr std::size_t capacity = 1000;

  flight_recorder();

  /// Returns the number by which to say how it goes on. It may have started at the same moment.
  std::uint64_t schedule(const operation& what,
                         operation_state state = operation_state::scheduled) noexcept;
  void start(std::uint64_t id) noexcept { advance(id, operation_state::started); }
  void complete(std::uint64_t id) noexcept { advance(id, operation_state::completed); }
  void fail(std::uint64_t id) noexcept { advance(id, operation_state::failed); }

  /// The oldest first. Those that change at that moment may be missing.
  std::vector<operation_record> records() const;

private:
  // Read and written word by word: a reader looks at the id before and after.
  struct slot {
    std::atomic<std::uint64_t> id{0};
    std::array<std::atomic<std::uint64_t>, 8> words{};
  };

  slot& slot_of(std::uint64_t id) const noexcept { return slots_[id % capacity]; }
  void advance(std::uint64_t id, operation_state state) noexcept;

  std::unique_ptr<slot[]> slots_;
  std::atomic<std::uint64_t> last_{0};
};

}  // namespace troupe::groups
