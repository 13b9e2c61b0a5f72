#include "troupe/messages/base/forked.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <iterator>

#include "troupe/messages/base/error.hpp"

namespace troupe::forked {

namespace {

constinit std::atomic<int> residents{0};

// A bit for each descriptor that children close. The kernel keeps no memory for the pages that were
// never written to.
constexpr std::size_t most_descriptors = std::size_t{1} << 20;
constexpr std::size_t word_bits = 64;
constinit std::atomic<std::uint64_t> to_close[most_descriptors / word_bits]{};

void mark(int descriptor, bool close) noexcept {
  if (descriptor < 0 || static_cast<std::size_t>(descriptor) >= most_descriptors) return;
  auto& word = to_close[static_cast<std::size_t>(descriptor) / word_bits];
  const auto bit = std::uint64_t{1} << (static_cast<std::size_t>(descriptor) % word_bits);
  if (close)
    word.fetch_or(bit);
  else
    word.fetch_and(~bit);
}

void close_all() {
  for (std::size_t i = 0; i < std::size(to_close); ++i) {
    auto left = to_close[i].load(std::memory_order_relaxed);
    if (left == 0) continue;
    to_close[i].store(0, std::memory_order_relaxed);
    for (; left != 0; left &= left - 1)
      close(static_cast<int>(i * word_bits + static_cast<std::size_t>(std::countr_zero(left))));
  }
}

// Runs on the only thread of the new process: what it calls must be async-signal-safe.
void in_child() {
  const int error = errno;  // of the program's fork()
  detail::generation.fetch_add(1);
  close_all();
  errno = error;
  if (residents.load() > 0) detail::from_nodes.store(true);
}

void watch() {
  [[maybe_unused]] static const int once = pthread_atfork(nullptr, nullptr, &in_child);
}

}  // namespace

void check() {
  if (!from_nodes()) return;
  throw not_initialized(fmt::format(
      "process {} was forked from one that has nodes, and can use none: their threads and their "
      "network are the parent's. Start a program in it (exec), or fork before init_rpc",
      getpid()));
}

void end_handler(std::string_view what) noexcept {
  char text[512];
  const auto end = fmt::format_to_n(
      text, std::size(text),
      "troupe: process {} was forked in {}, whose answer is the parent's to give; it ends here, "
      "with status {}. Let it call exec or _exit before.\n",
      getpid(), what, EX_SOFTWARE);
  const auto size = std::min(end.size, std::size(text));
  [[maybe_unused]] const auto wrote = write(STDERR_FILENO, text, size);
  _exit(EX_SOFTWARE);
}

resident::resident() {
  watch();
  residents.fetch_add(1);
}
resident::~resident() { residents.fetch_sub(1); }

home::home() : generation_((watch(), detail::generation.load())) {}

void close_in_children(int descriptor) noexcept {
  watch();
  mark(descriptor, true);
}
void keep_in_children(int descriptor) noexcept { mark(descriptor, false); }

}  // namespace troupe::forked
