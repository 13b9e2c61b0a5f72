#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace troupe::transport::lending {

/// What this node has lent to one peer, or passed on to it: which bytes, and what keeps them.
/// Thread-safe.
///
/// A loan ends when the peer says so. Its messages may overtake each other, so the end says how
/// often the peer has given the bytes back in messages of its own, and counts once those have
/// arrived.
class loan_book {
public:
  /// At most `limit` bytes are lent at a time.
  explicit loan_book(std::uint64_t limit) noexcept : limit_(limit) {}

  /// What the peer may do with what it is lent.
  enum class way : std::uint8_t {
    read,       ///< read it, and give it back to be read
    passed_on,  ///< the same, but not give it back: it is of another node's region
    handed,     ///< write it as well, and hand all of it back: nobody uses it here
    leased      ///< copy it, since it is a device's; of no size here, for which `limit` is not
  };

  /// The loan's number, or 0: more would be lent than the limit, or it is closed. Allocates only to
  /// grow.
  std::uint64_t lend(std::shared_ptr<const void> keep, std::uint64_t offset, std::uint64_t size,
                     way how = way::read);

  /// The peer has never heard of it.
  void cancel(std::uint64_t loan) noexcept;

  /// The peer sends the bytes back, all or some of them: what keeps them. Throws decode_error:
  /// there is no such loan, or these are not its bytes.
  std::shared_ptr<const void> give_back(std::uint64_t loan, std::uint64_t offset,
                                        std::uint64_t size);

  /// The peer sends back what it was handed, all of it, and the loan ends: what keeps the bytes,
  /// which are this node's alone. Throws decode_error as above.
  std::shared_ptr<const void> hand_back(std::uint64_t loan, std::uint64_t offset,
                                        std::uint64_t size);

  /// The peer uses the bytes no longer, and has given them back so often. Throws decode_error.
  void end(std::uint64_t loan, std::uint64_t times_given_back);

  /// The connection is over: nothing is lent any more, though a sender may be under way, and
  /// nothing more is heard.
  void close() noexcept;

  /// The peer, a node of this process, hears nothing more, and reads these loans alone. The others
  /// end with `close`: they are of messages that never came. What it reads ends by `end`.
  void only_read(std::vector<std::uint64_t> loans) noexcept;

  /// The peer's process has ended.
  void end_all() noexcept;

  std::size_t loans() const noexcept;
  std::size_t leases() const noexcept;  ///< of these, those of `way::leased`
  std::uint64_t bytes() const noexcept;
  bool has_room_for(std::uint64_t size) const noexcept;

private:
  struct loan {
    std::shared_ptr<const void> keep;  // null: this place is free
    std::uint64_t offset = 0;
    std::uint64_t size = 0;
    std::uint64_t given_back = 0;
    std::uint64_t due = 0;  // `given_back` with which it ends
    bool ending = false;
    way how = way::read;
    std::uint32_t turn = 0;  // of this place: a number that comes late names no later loan
    std::uint32_t next = 0;  // the next free place
  };
  static constexpr std::uint32_t none = 0xffffffff;

  bool takes(std::uint64_t size) const noexcept {
    return !closed_ && size <= limit_ && bytes_ <= limit_ - size;
  }
  loan& find(std::uint64_t number);
  std::shared_ptr<const void> remove(loan& which) noexcept;
  void end_unread(std::vector<std::shared_ptr<const void>>& kept) noexcept;

  const std::uint64_t limit_;
  mutable std::mutex mutex_;
  std::vector<loan> loans_;
  std::uint32_t free_ = none;
  std::size_t count_ = 0;
  std::size_t leases_ = 0;  // of these
  std::uint64_t bytes_ = 0;
  bool closed_ = false;
  std::optional<std::vector<std::uint64_t>> read_;  // see `only_read`; ascending
};

}  // namespace troupe::transport::lending
