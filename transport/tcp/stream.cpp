#include "troupe/transport/tcp/stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "troupe/messages/base/error.hpp"

namespace troupe::transport::tcp {

namespace {

// Written with one system call: enough to make its price small, little enough that a call which has
// just been added is not long in coming.
constexpr std::size_t most_sealed = 16;
constexpr std::size_t most_sealed_bytes = 512 * 1024;
constexpr std::size_t buffer_size = 128 * 1024;

std::string system_text(int error) { return std::strerror(error); }

std::span<const std::byte> bytes_of(const record_head& head) {
  return std::as_bytes(std::span(&head, 1));
}

}  // namespace

stream::stream(unique_fd fd, stream_kind kind, role as, stream_protection how,
               const stream_keys& keys)
    : fd_(std::move(fd)),
      kind_(kind),
      sealing_(how, as == role::dialer ? keys.from_dialer : keys.from_listener),
      opening_(how, as == role::dialer ? keys.from_listener : keys.from_dialer),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(buffer_size)) {}

// ---- Sending

// What cannot be sealed is not sent: the stream is broken then.
void stream::seal(outgoing_record&& one) {
  sealed_record to;
  to.record = std::move(one);
  const auto& head = to.record.head;
  const std::size_t bytes = head.size + head.attached;  // one of them is 0
  if (sealing_.encrypts() && bytes > 0) {
    to.ciphertext = std::make_unique_for_overwrite<std::byte[]>(bytes);
  }
  const std::span<const std::byte> data(to.record.data, bytes);
  sealing_.seal(bytes_of(head), data.first(head.size), to.ciphertext.get(), to.tag);
  to.size = sizeof head + head.size + sealing_.overhead();
  if (head.attached > 0) {
    sealing_.seal({}, data, to.ciphertext.get(), to.attached_tag);
    to.size += head.attached + sealing_.overhead();
  }
  sealed_.push_back(std::move(to));
}

// Appends the pieces of a record but for its first `skip` bytes.
std::size_t stream::put(const sealed_record& one, std::size_t skip, std::vector<iovec>& out) const {
  std::size_t total = 0;
  const auto add = [&](const void* data, std::size_t size) {
    if (skip >= size) {
      skip -= size;
      return;
    }
    out.push_back(
        {const_cast<std::byte*>(static_cast<const std::byte*>(data)) + skip, size - skip});
    total += size - skip;
    skip = 0;
  };
  const auto& head = one.record.head;
  const auto* const data = one.ciphertext ? one.ciphertext.get() : one.record.data;
  add(&head, sizeof head);
  add(data, head.size);
  add(one.tag.data(), sealing_.overhead());
  if (head.attached > 0) {
    add(data, head.attached);
    add(one.attached_tag.data(), sealing_.overhead());
  }
  return total;
}

bool stream::flush(std::string& why) {
  while (!blocked_) {
    std::size_t bytes = 0;
    for (const auto& one : sealed_) bytes += one.size;
    while (!waiting_.empty() && sealed_.size() < most_sealed && bytes < most_sealed_bytes) {
      try {
        seal(std::move(waiting_.front()));
      } catch (const std::exception& e) {
        why = e.what();
        return false;
      }
      waiting_.pop_front();
      bytes += sealed_.back().size;
    }
    if (sealed_.empty()) return true;
    pieces_.clear();
    std::size_t wanted = 0, skip = written_;
    for (const auto& one : sealed_) {
      wanted += put(one, skip, pieces_);
      skip = 0;
    }
    msghdr message{};
    message.msg_iov = pieces_.data();
    message.msg_iovlen = pieces_.size();
    const auto n = ::sendmsg(fd_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) {
        blocked_ = true;
        return true;
      }
      why = system_text(errno);
      return false;
    }
    written_ += static_cast<std::size_t>(n);
    while (!sealed_.empty() && written_ >= sealed_.front().size) {
      written_ -= sealed_.front().size;
      sealed_.pop_front();
    }
    if (static_cast<std::size_t>(n) < wanted) {
      blocked_ = true;
      return true;
    }
  }
  return true;
}

void stream::say_leave() {
  std::string ignored;
  add({{.kind = record_kind::leave}, nullptr, nullptr});
  flush(ignored);
}

// ---- Receiving

bool stream::finish_attached(record_sink& to, unsigned& count, std::string& why) {
  const auto overhead = opening_.overhead();
  if (attached_here_ < attached_size_ || end_ - begin_ < overhead) return true;  // not yet
  record_cipher::tag given{};
  std::memcpy(given.data(), buffer_.get() + begin_, overhead);
  begin_ += overhead;
  in_attached_ = false;
  if (!opening_.open({}, {attached_, attached_size_}, given)) {
    why = "what it sends is not what it has sealed";
    return false;
  }
  ++count;
  to.on_attached(attached_head_);
  return true;
}

// Hands over the records that lie in the buffer whole. False: broken.
bool stream::parse(record_sink& to, unsigned& count, std::string& why) {
  const auto overhead = opening_.overhead();
  while (true) {
    if (in_attached_) {
      const auto part = std::min(attached_size_ - attached_here_, end_ - begin_);
      std::memcpy(attached_ + attached_here_, buffer_.get() + begin_, part);
      attached_here_ += part;
      begin_ += part;
      if (!finish_attached(to, count, why)) return false;
      if (in_attached_) return true;
      continue;
    }
    record_head head;
    if (end_ - begin_ < sizeof head) return true;
    std::memcpy(&head, buffer_.get() + begin_, sizeof head);
    if (head.size > largest_body) {
      why = "it sends a malformed record";
      return false;
    }
    const auto whole = sizeof head + head.size + overhead;
    if (end_ - begin_ < whole) return true;
    const std::span<std::byte> body(buffer_.get() + begin_ + sizeof head, head.size);
    record_cipher::tag given{};
    std::memcpy(given.data(), body.data() + body.size(), overhead);
    if (!opening_.open(bytes_of(head), body, given)) {
      why = "what it sends is not what it has sealed";
      return false;
    }
    begin_ += whole;
    if (head.attached == 0) {
      ++count;
      to.on_record(head, body);
      continue;
    }
    if (head.size != 0) {
      why = "it sends a malformed record";
      return false;
    }
    attached_ = to.place_for(head);
    attached_head_ = head;
    attached_size_ = head.attached;
    attached_here_ = 0;
    in_attached_ = true;
  }
}

stream::outcome stream::receive(record_sink& to, std::size_t most, unsigned& count,
                                std::string& why) {
  for (std::size_t taken = 0; taken < most;) {
    if (begin_ == end_) {
      begin_ = end_ = 0;
    } else if (begin_ > 0 && buffer_size - end_ < buffer_size / 2) {
      std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    iovec into[2];
    int n_into = 0;
    std::size_t room = 0;
    if (in_attached_ && attached_here_ < attached_size_) {  // the buffer is empty then
      into[n_into++] = {attached_ + attached_here_, attached_size_ - attached_here_};
      room += attached_size_ - attached_here_;
    }
    const auto direct = room;
    into[n_into++] = {buffer_.get() + end_, buffer_size - end_};
    room += buffer_size - end_;
    msghdr message{};
    message.msg_iov = into;
    message.msg_iovlen = static_cast<std::size_t>(n_into);
    const auto n = ::recvmsg(fd_.get(), &message, MSG_DONTWAIT);
    if (n == 0) return outcome::ended;
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return outcome::drained;
      why = system_text(errno);
      return outcome::broken;
    }
    const auto got = static_cast<std::size_t>(n);
    taken += got;
    const auto placed = std::min(got, direct);
    attached_here_ += placed;
    end_ += got - placed;
    if (!parse(to, count, why)) return outcome::broken;
    if (got < room) return outcome::drained;
  }
  return outcome::more;
}

}  // namespace troupe::transport::tcp
