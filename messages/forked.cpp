#include "messages/forked.hpp"

#include <fmt/format.h>
#include <pthread.h>
#include <sysexits.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "messages/error.hpp"

namespace troupe::forked {

namespace {

constinit std::atomic<int> residents{0};

// On the one thread that the new process has. What is done here must be safe in a signal handler.
void in_child() {
  detail::generation.fetch_add(1);
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

}  // namespace troupe::forked
