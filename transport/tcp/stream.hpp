#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "troupe/transport/auth/record_cipher.hpp"
#include "troupe/transport/system/unique_fd.hpp"
#include "troupe/transport/tcp/handshake.hpp"
#include "troupe/transport/tcp/wire.hpp"

namespace troupe::transport::tcp {

/// A record that is to be sent: `data` are its body or what is attached, as the head says. `keep`
/// keeps them alive.
struct outgoing_record {
  record_head head;
  const std::byte* data = nullptr;
  std::shared_ptr<const void> keep;
  bool frozen = false;  ///< `data` stays as it is while `keep` exists
};

/// What a stream hands over. Called inside of `stream::receive`.
class record_sink {
public:
  /// A record has come. Throws decode_error when it makes no sense.
  virtual void on_record(const record_head& head, std::span<const std::byte> body) = 0;
  /// Memory for what is attached to `head`, which is genuine. Throws decode_error, std::bad_alloc.
  virtual std::byte* place_for(const record_head& head) = 0;
  /// It has come, and is genuine.
  virtual void on_attached(const record_head& head) = 0;

protected:
  ~record_sink() = default;
};

/// One connection whose ends have proved themselves. The sending half is for one thread at a time,
/// the receiving half for one as well, which may be another one.
class stream {
public:
  enum class role : std::uint8_t { dialer, listener };

  /// Takes `fd` over.
  stream(unique_fd fd, stream_kind kind, role as, stream_protection how, const stream_keys& keys);

  int fd() const noexcept { return fd_.get(); }
  stream_kind kind() const noexcept { return kind_; }
  /// Names it, at both ends.
  const nonce& connection() const noexcept { return connection_; }

  std::uint64_t id = 0;  ///< in the transport's epoll set

  // ---- Sending

  void add(outgoing_record&& one) { waiting_.push_back(std::move(one)); }

  /// What has gone to the kernel: it is dropped where no lock is held, since its memory may be the
  /// program's, which may send.
  using sent_records = std::vector<std::shared_ptr<const void>>;

  /// Sends what it can, and adds what keeps sent records alive to `sent`. False: the connection is
  /// broken; `why` says how.
  bool flush(std::string& why, sent_records& sent);

  /// Would `send_small` take a record with this body?
  bool takes_small(std::size_t body) const noexcept {
    return body <= most_small && !blocked_ && empty();
  }

  /// Adds a record and flushes, without memory of its own: `body`, of `head.size` bytes, is not
  /// used after the return. Pre: `takes_small`.
  bool send_small(const record_head& head, std::span<const std::byte> body, std::string& why,
                  sent_records& sent);

  /// Says that this end leaves, as far as the kernel takes that at once. The last record.
  void say_leave(sent_records& sent);

  /// Has all that was added gone to the kernel?
  bool empty() const noexcept { return waiting_.empty() && sealed_.empty(); }
  /// The kernel takes no more at present.
  bool blocked() const noexcept { return blocked_; }
  void writable() noexcept { blocked_ = false; }

  // ---- Receiving

  enum class outcome : std::uint8_t { drained, more, ended, broken };

  /// Reads what there is, `most` bytes or little more, and hands records over; `count` grows by
  /// their number. `ended`: the other side has closed it; `broken`: `why` says how. Throws what the
  /// sink throws.
  outcome receive(record_sink& to, std::size_t most, unsigned& count, std::string& why);

private:
  static constexpr std::size_t most_small = 512;

  // A record that is being written.
  struct sealed_record {
    outgoing_record record;
    record_cipher::tag tag;
    record_cipher::tag attached_tag;
    std::unique_ptr<std::byte[]> copy;  // what is sent in place of `record.data`
    std::size_t size = 0;               // on the wire
  };

  std::unique_ptr<std::byte[]> memory_for(std::size_t bytes);
  bool needs_copy(const outgoing_record& one) const noexcept;
  void seal(outgoing_record&& one);
  void seal_rest(const record_head& head, std::span<const std::byte> body,
                 const record_cipher::tag& tag);
  std::size_t put(const sealed_record& one, std::size_t skip, std::vector<iovec>& out) const;
  bool parse(record_sink& to, unsigned& count, std::string& why);
  std::size_t missing() const noexcept;
  bool finish_attached(record_sink& to, unsigned& count, std::string& why);

  const unique_fd fd_;
  const stream_kind kind_;
  const nonce connection_;
  record_cipher sealing_;
  record_cipher opening_;

  std::deque<outgoing_record> waiting_;
  std::deque<sealed_record> sealed_;
  std::size_t written_ = 0;  // of the first sealed record
  std::vector<iovec> pieces_;
  std::vector<std::unique_ptr<std::byte[]>> spare_;
  bool blocked_ = false;

  const std::unique_ptr<std::byte[]> buffer_;  // its pages are the process's once they are used
  std::size_t begin_ = 0, end_ = 0;            // of what lies in it unread
  record_head attached_head_{};                // while something attached arrives
  std::byte* attached_ = nullptr;
  std::size_t attached_size_ = 0, attached_here_ = 0;
  bool in_attached_ = false;
  std::string malformed_;  // what has come that makes no sense; no more is read
};

}  // namespace troupe::transport::tcp
