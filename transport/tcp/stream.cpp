#include "troupe/transport/tcp/stream.hpp"

#include <sys/socket.h>

#include <algorithm>
#include <array>
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
constexpr auto not_sealed = "a record was altered on the way";
constexpr auto makes_no_sense = "it sends a malformed record";
// Copies of chunks lie in memory that is used again.
constexpr std::size_t least_spare = small_chunk;
constexpr std::size_t largest_spare = largest_chunk;
constexpr std::size_t most_spare = 2;

bool is_spare_size(std::size_t bytes) { return bytes >= least_spare && bytes <= largest_spare; }

// A few small pieces cost the kernel more than one does that is as large as all of them.
ssize_t write_pieces(int fd, const std::vector<iovec>& pieces, std::size_t all) {
  constexpr int flags = MSG_NOSIGNAL | MSG_DONTWAIT;
  std::array<std::byte, 512> together;
  if (all <= together.size()) {
    std::size_t at = 0;
    for (const auto& one : pieces) {
      std::memcpy(together.data() + at, one.iov_base, one.iov_len);
      at += one.iov_len;
    }
    return ::send(fd, together.data(), at, flags);
  }
  msghdr message{};
  message.msg_iov = const_cast<iovec*>(pieces.data());
  message.msg_iovlen = pieces.size();
  return ::sendmsg(fd, &message, flags);
}

ssize_t read_pieces(int fd, std::span<iovec> pieces) {
  if (pieces.size() == 1) return ::recv(fd, pieces[0].iov_base, pieces[0].iov_len, MSG_DONTWAIT);
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  return ::recvmsg(fd, &message, MSG_DONTWAIT);
}

std::string system_text(int error) { return std::strerror(error); }

std::span<const std::byte> bytes_of(const record_head& head) {
  return std::as_bytes(std::span(&head, 1));
}

}  // namespace

stream::stream(unique_fd fd, stream_kind kind, role as, stream_protection how,
               const stream_keys& keys)
    : fd_(std::move(fd)),
      kind_(kind),
      connection_(keys.connection),
      sealing_(how, as == role::dialer ? keys.from_dialer : keys.from_listener),
      opening_(how, as == role::dialer ? keys.from_listener : keys.from_dialer),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(buffer_size)) {}

// ---- Sending

std::unique_ptr<std::byte[]> stream::memory_for(std::size_t bytes) {
  if (!is_spare_size(bytes)) return std::make_unique_for_overwrite<std::byte[]>(bytes);
  if (spare_.empty()) return std::make_unique_for_overwrite<std::byte[]>(largest_spare);
  auto out = std::move(spare_.back());
  spare_.pop_back();
  return out;
}

// A payload lies in the program's memory, which may change while it is sent, unless it is frozen.
// Its tag is that of the bytes which are sent only if both are of one copy, which is in the cache
// when the kernel reads it.
bool stream::needs_copy(const outgoing_record& one) const noexcept {
  const auto kind = one.head.kind;
  const bool of_program = kind == record_kind::payload || kind == record_kind::chunk;
  return sealing_.encrypts() || (of_program && !one.frozen && sealing_.overhead() > 0);
}

// Throws bad_alloc. What cannot be sealed is not sent: the stream is broken then.
void stream::seal(outgoing_record&& one) {
  sealed_record to;
  to.record = std::move(one);
  const auto& head = to.record.head;
  const std::size_t bytes = head.size + head.attached;  // one of them is 0
  if (bytes > 0 && needs_copy(to.record)) to.copy = memory_for(bytes);
  const std::span<const std::byte> data(to.record.data, bytes);
  const auto seal_part = [&](std::span<const std::byte> first, std::span<const std::byte> body,
                             record_cipher::tag& tag) {
    to.copy ? sealing_.seal_copy(first, body, to.copy.get(), tag)
            : sealing_.seal(first, body, nullptr, tag);
  };
  seal_part(bytes_of(head), data.first(head.size), to.tag);
  to.size = sizeof head + head.size + sealing_.overhead();
  if (head.attached > 0) {
    seal_part({}, data, to.attached_tag);
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
  const auto* const data = one.copy ? one.copy.get() : one.record.data;
  add(&head, sizeof head);
  add(data, head.size);
  add(one.tag.data(), sealing_.overhead());
  if (head.attached > 0) {
    add(data, head.attached);
    add(one.attached_tag.data(), sealing_.overhead());
  }
  return total;
}

bool stream::flush(std::string& why, sent_records& kept) {
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
    const auto n = write_pieces(fd_.get(), pieces_, wanted);
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
      auto& sent = sealed_.front();
      written_ -= sent.size;
      if (sent.copy && is_spare_size(sent.record.head.size + sent.record.head.attached) &&
          spare_.size() < most_spare)
        spare_.push_back(std::move(sent.copy));
      if (sent.record.keep) kept.push_back(std::move(sent.record.keep));
      sealed_.pop_front();
    }
    if (static_cast<std::size_t>(n) < wanted) {
      blocked_ = true;
      return true;
    }
  }
  return true;
}

// One piece, built and sealed where it is written from. If the kernel takes it whole, there is no
// queue, no memory and no other system call.
bool stream::send_small(const record_head& head, std::span<const std::byte> body, std::string& why,
                        sent_records& sent) {
  std::array<std::byte, sizeof head + most_small + record_cipher::tag_size> wire;
  auto at = wire.begin();
  const std::span<const std::byte> head_there(at, sizeof head);
  at = std::ranges::copy(bytes_of(head), at).out;
  const std::span<std::byte> body_there(at, body.size());
  at = std::ranges::copy(body, at).out;
  record_cipher::tag tag;
  sealing_.seal(head_there, body_there, body_there.data(), tag);
  at = std::copy_n(tag.begin(), sealing_.overhead(), at);
  const auto size = static_cast<std::size_t>(at - wire.begin());
  const auto n = ::send(fd_.get(), wire.data(), size, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n == static_cast<ssize_t>(size)) return true;
  if (n < 0 && errno != EINTR && errno != EAGAIN && errno != EWOULDBLOCK) {
    why = system_text(errno);
    return false;
  }
  // The kernel has no room: the rest waits as that of other records does.
  try {
    seal_rest(head, body_there, tag);
  } catch (const std::exception& e) {  // a part of a record was sent: nothing can follow it
    why = e.what();
    return false;
  }
  written_ = n > 0 ? static_cast<std::size_t>(n) : 0;
  return flush(why, sent);
}

// Keeps a record that is sealed already, with a body that is not the caller's.
void stream::seal_rest(const record_head& head, std::span<const std::byte> body,
                       const record_cipher::tag& tag) {
  sealed_record rest;
  rest.record.head = head;
  rest.tag = tag;
  rest.copy = memory_for(body.size());
  std::memcpy(rest.copy.get(), body.data(), body.size());
  rest.size = sizeof head + body.size() + sealing_.overhead();
  sealed_.push_back(std::move(rest));
}

void stream::say_leave(sent_records& sent) {
  std::string ignored;
  add({{.kind = record_kind::leave}, nullptr, nullptr});
  flush(ignored, sent);
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
    why = not_sealed;
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
      why = makes_no_sense;
      return false;
    }
    const auto whole = sizeof head + head.size + overhead;
    if (end_ - begin_ < whole) return true;
    const std::span<std::byte> body(buffer_.get() + begin_ + sizeof head, head.size);
    record_cipher::tag given{};
    std::memcpy(given.data(), body.data() + body.size(), overhead);
    const std::span<const std::byte> head_there(buffer_.get() + begin_, sizeof head);
    if (!opening_.open(head_there, body, given)) {
      why = not_sealed;
      return false;
    }
    begin_ += whole;
    if (head.attached == 0) {
      ++count;
      to.on_record(head, body);
      continue;
    }
    if (head.size != 0) {
      why = makes_no_sense;
      return false;
    }
    attached_ = to.place_for(head);
    attached_head_ = head;
    attached_size_ = head.attached;
    attached_here_ = 0;
    in_attached_ = true;
  }
}

// How many bytes the buffer lacks of the next record, or of its head if that has not come; of an
// attached body's tag and what follows it, since the body has a place of its own.
std::size_t stream::missing() const noexcept {
  const auto overhead = opening_.overhead();
  const auto here = end_ - begin_;
  if (in_attached_) return overhead + sizeof(record_head) + overhead - here;
  if (here < sizeof(record_head)) return sizeof(record_head) + overhead - here;
  record_head head;
  std::memcpy(&head, buffer_.get() + begin_, sizeof head);
  return sizeof head + head.size + overhead - here;
}

stream::outcome stream::receive(record_sink& to, std::size_t most, unsigned& count,
                                std::string& why) {
  if (!malformed_.empty()) {
    why = malformed_;
    return outcome::broken;
  }
  for (std::size_t taken = 0; taken < most;) {
    if (begin_ == end_) {
      begin_ = end_ = 0;
    } else if (begin_ > 0 && buffer_size - end_ < buffer_size / 2) {
      std::memmove(buffer_.get(), buffer_.get() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    iovec into[2];
    std::size_t n_into = 0;
    std::size_t room = 0;
    if (in_attached_ && attached_here_ < attached_size_) {  // the buffer is empty then
      into[n_into++] = {attached_ + attached_here_, attached_size_ - attached_here_};
      room += attached_size_ - attached_here_;
    }
    const auto direct = room;
    // Of a chunk, its tag and the next head alone: what follows them is received into its place.
    auto beside = buffer_size - end_;
    if (kind_ == stream_kind::bulk) beside = std::min(beside, missing());
    into[n_into++] = {buffer_.get() + end_, beside};
    room += beside;
    const auto n = read_pieces(fd_.get(), std::span(into, n_into));
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
    if (!parse(to, count, why)) {
      malformed_ = why;
      return outcome::broken;
    }
    if (got < room) return outcome::drained;
  }
  return outcome::more;
}

}  // namespace troupe::transport::tcp
