#include "troupe/transport/store/file_store_log.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

#include "troupe/messages/base/error.hpp"
#include "troupe/messages/base/log.hpp"
#include "troupe/transport/store/store_wire.hpp"

namespace troupe::transport {

namespace {

constexpr char magic[8] = {'T', 'R', 'O', 'U', 'P', 'E', 'F', 3};
constexpr std::size_t nonce_at = sizeof magic;
constexpr std::size_t secret_at = nonce_at + 24;
constexpr std::size_t proof_at = secret_at + job_secret::size;
constexpr std::size_t header_size = proof_at + 32;
using header_bytes = std::array<std::byte, header_size>;
constexpr std::uint64_t record_head = 8 + 32;
constexpr std::uint64_t largest_file = std::uint64_t{4} << 30;

constexpr std::int64_t operation_range = std::int64_t{1} << 61;
constexpr std::int64_t alive_range = operation_range + 1;

constexpr const char* key_purpose = "troupe file store 3";

std::span<const std::byte> magic_bytes() { return std::as_bytes(std::span(magic)); }

}  // namespace

file_store_log::guard::guard(file_store_log& log, bool writing, time_point deadline) : log_(log) {
  log_.lock_until(operation_range, writing ? F_WRLCK : F_RDLCK, deadline);
  log_.writing_ = writing;
}

file_store_log::guard::~guard() {
  try {
    log_.lock(operation_range, F_UNLCK);
  } catch (const error&) {
    // A file system that has lost the file, or its lock, has released it.
  }
}

file_store_log::file_store_log(std::filesystem::path path, const std::optional<job_secret>& secret,
                               time_point deadline)
    : path_(std::move(path)), given_(secret.has_value()), secret_(secret.value_or(job_secret())) {
  while (true) {
    fd_ = unique_fd(::open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
    if (!fd_) fail_errno("cannot be opened");
    guard hold(*this, true, deadline);
    if (try_open()) return;
  }
}

// False if another process has removed the file between our opening and locking it.
bool file_store_log::try_open() {
  struct stat ours {};
  if (fstat(fd_.get(), &ours) != 0) fail_errno("cannot be examined");
  if (!S_ISREG(ours.st_mode)) fail("is not a regular file");
  if (ours.st_uid != geteuid())
    fail(fmt::format("belongs to user {}, not to this one", ours.st_uid));
  const bool open_to_others = (ours.st_mode & 077) != 0;
  if (!given_ && open_to_others)
    fail(
        fmt::format("may be used by others (mode {:04o}), so it cannot keep the job's secret: "
                    "remove it, or set TROUPE_JOB_SECRET on every rank",
                    ours.st_mode & 07777));
  if (!is_there()) return false;

  char begin[sizeof magic] = {};
  const auto size = file_size();
  read_at(0, std::as_writable_bytes(std::span(begin)).first(std::min(size, sizeof begin)));
  // A process that died while it wrote the header leaves part of it.
  if (std::memcmp(begin, magic, std::min(size, sizeof magic - 1)) != 0)
    fail("exists and is not a store's file; it is left alone: choose another path");
  // Others could read it, and hold its locks.
  if (open_to_others && fchmod(fd_.get(), 0600) != 0)
    log().warn("the store's file {} may be used by others, and cannot be closed to them: {}",
               path_.string(), std::strerror(errno));

  if (lock(alive_range, F_WRLCK)) start_afresh();
  if (!lock(alive_range, F_RDLCK)) fail_errno("cannot be locked");
  check_header();
  return true;
}

// Whether the open file is still the one at the path.
bool file_store_log::is_there() const {
  struct stat ours {};
  struct stat there {};
  return fstat(fd_.get(), &ours) == 0 && lstat(path_.c_str(), &there) == 0 &&
         there.st_ino == ours.st_ino && there.st_dev == ours.st_dev;
}

void file_store_log::start_afresh() {
  if (ftruncate(fd_.get(), 0) != 0) fail_errno("cannot be emptied");
  random_bytes(nonce_);
  header_bytes header{};
  std::memcpy(header.data(), magic, sizeof magic);
  std::memcpy(header.data() + nonce_at, nonce_.data(), nonce_.size());
  if (!given_) std::ranges::copy(secret_.bytes(), header.begin() + secret_at);
  const auto key = secret_.subkey(key_purpose);
  std::ranges::copy(key.sign(std::span(header).first(proof_at)), header.begin() + proof_at);
  write_at(0, header);
}

void file_store_log::check_header() {
  header_bytes header;
  const auto all = std::span(header);
  if (!read_at(0, header)) fail("is in use, but has no complete header");
  if (!std::ranges::equal(all.first(sizeof magic), magic_bytes()))
    fail("is in use by another version of Troupe");
  const auto kept = all.subspan<secret_at, job_secret::size>();
  const bool keeps = std::ranges::any_of(kept, [](std::byte b) { return b != std::byte{0}; });
  if (keeps == given_)
    fail(
        fmt::format("is in use by a job that was given {} secret; TROUPE_JOB_SECRET must be set "
                    "on every rank or on none",
                    given_ ? "no" : "a"));
  if (keeps) secret_ = job_secret::from_bytes(kept);
  key_ = secret_.subkey(key_purpose);
  job_secret::mac proof;
  std::memcpy(proof.data(), header.data() + proof_at, proof.size());
  if (!key_.verify(all.first(proof_at), proof))
    fail(
        "is in use by a job with another secret; TROUPE_JOB_SECRET must be the same on every rank, "
        "and a path serves one job at a time");
  std::memcpy(nonce_.data(), header.data() + nonce_at, nonce_.size());
  seen_ = header_size;
}

file_store_log::~file_store_log() {
  // A forked process shares the parent's locks, which must stay.
  if (!home_.here()) return;
  // Best effort: a file that stays is started afresh by the next run.
  try {
    guard hold(*this, true, deadline_after(std::chrono::seconds(2)));
    if (!lock(alive_range, F_WRLCK))
      lock(alive_range, F_UNLCK);  // under the guard, so that no other process asks meanwhile
                                   // whether we have it open
    else if (is_there())
      ::unlink(path_.c_str());
  } catch (const error&) {
  }
}

void file_store_log::read_new(const std::function<void(std::span<const std::byte>)>& use) {
  const auto size = file_size();
  while (seen_ < size) {
    std::array<std::byte, record_head> head;
    std::uint64_t length = 0;
    bool whole = size - seen_ >= record_head;
    if (whole) {
      if (!read_at(seen_, head)) fail("has become shorter");
      std::memcpy(&length, head.data(), sizeof length);
      if (length > max_store_message) fail("has a damaged record");
      whole = size - seen_ - record_head >= length;
    }
    if (!whole) {
      // Its writer died: with the write lock it can go, otherwise the next writer removes it.
      if (writing_ && ftruncate(fd_.get(), static_cast<off_t>(seen_)) != 0)
        fail_errno("cannot be shortened");
      return;
    }
    store::bytes content(length);
    if (!read_at(seen_ + record_head, content)) fail("has become shorter");
    job_secret::mac theirs;
    std::memcpy(theirs.data(), head.data() + 8, theirs.size());
    if (!key_.verify(transcript(seen_, content), theirs))
      fail("has a record without a valid proof");
    seen_ += record_head + length;
    use(content);
  }
}

void file_store_log::append(std::span<const std::byte> content) {
  if (seen_ + record_head + content.size() > largest_file)
    fail(fmt::format("is full: it has {} bytes", seen_));
  std::vector<std::byte> record(record_head + content.size());
  const std::uint64_t length = content.size();
  std::memcpy(record.data(), &length, sizeof length);
  const auto mac = key_.sign(transcript(seen_, content));
  std::memcpy(record.data() + 8, mac.data(), mac.size());
  std::ranges::copy(content, record.begin() + record_head);
  write_at(seen_, record);
  seen_ += record.size();
}

void file_store_log::start_over() noexcept { seen_ = header_size; }

bool file_store_log::has_grown() const { return file_size() != seen_; }

bool file_store_log::lock(std::int64_t range, short type) {
  struct flock l {};
  l.l_type = type;
  l.l_whence = SEEK_SET;
  l.l_start = range;
  l.l_len = 1;
  while (fcntl(fd_.get(), F_OFD_SETLK, &l) != 0) {
    if (errno == EAGAIN || errno == EACCES) return false;
    if (errno != EINTR) fail_errno("cannot be locked");
  }
  return true;
}

void file_store_log::lock_until(std::int64_t range, short type, time_point deadline) {
  using namespace std::chrono_literals;
  std::chrono::microseconds pause = 20us;
  while (!lock(range, type)) {
    if (std::chrono::steady_clock::now() > deadline) fail("stays locked by another process");
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(2ms));
  }
}

store::bytes file_store_log::transcript(std::uint64_t offset,
                                        std::span<const std::byte> content) const {
  store::bytes out(nonce_.size() + sizeof offset + content.size());
  std::ranges::copy(nonce_, out.begin());
  std::memcpy(out.data() + nonce_.size(), &offset, sizeof offset);
  std::ranges::copy(content, out.begin() + nonce_.size() + sizeof offset);
  return out;
}

void file_store_log::write_at(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto n = pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail_errno("cannot be written");
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
}

bool file_store_log::read_at(std::uint64_t offset, std::span<std::byte> bytes) const {
  while (!bytes.empty()) {
    const auto n = pread(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail_errno("cannot be read");
    if (n == 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(n));
    offset += static_cast<std::uint64_t>(n);
  }
  return true;
}

std::uint64_t file_store_log::file_size() const {
  struct stat s {};
  if (fstat(fd_.get(), &s) != 0) fail_errno("cannot be examined");
  return static_cast<std::uint64_t>(s.st_size);
}

void file_store_log::fail(const std::string& what) const {
  throw store_error(fmt::format("the store's file {} {}", path_.string(), what));
}

void file_store_log::fail_errno(const char* what) const {
  fail(fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace troupe::transport
