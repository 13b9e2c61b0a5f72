// The UCX transport alone between two processes of this host that both poll: round trips and
// one-way bandwidth. Compare with `ucx_perftest -t ucp_am_lat` (which prints half a round trip)
// and `ucx_perftest -t ucp_am_bw -O 1`.

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "troupe/transport/ucx/ucx_transport.hpp"

namespace {

using namespace troupe;
using namespace troupe::transport;

// Most that one line of the table may take, in microseconds.
constexpr double longest = 3e6;

double now() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Recycles, as the runtime's pool does: fresh pages cost more than the copy.
class pool final : public payload_pool {
public:
  std::shared_ptr<std::byte> allocate(std::size_t size, memory_place) override {
    auto& spare = spare_[size];
    std::byte* bytes = nullptr;
    if (spare.empty()) {
      const std::size_t rounded = (size + (2u << 20) - 1) & ~std::size_t{(2u << 20) - 1};
      bytes = static_cast<std::byte*>(std::aligned_alloc(
          size < (2u << 20) ? 64 : 2u << 20, size < (2u << 20) ? (size + 63) / 64 * 64 : rounded));
      if (size >= (2u << 20)) madvise(bytes, rounded, MADV_HUGEPAGE);
      std::memset(bytes, 1, size);
    } else {
      bytes = spare.back();
      spare.pop_back();
    }
    return {bytes, [this, size](std::byte* b) { spare_[size].push_back(b); }};
  }

private:
  std::map<std::size_t, std::vector<std::byte*>> spare_;
};

struct inbox final : sink {
  std::deque<incoming_message> messages;
  bool lost = false;
  void on_message(incoming_message&& m) override { messages.push_back(std::move(m)); }
  void on_peer_lost(rank_t, peer_loss) override { lost = true; }
};

struct node {
  inbox received;
  pool memory;
  std::unique_ptr<troupe::transport::transport> net;

  incoming_message next() {
    while (received.messages.empty()) {
      net->progress();
      if (received.lost) throw std::runtime_error("the other process is gone");
    }
    auto m = std::move(received.messages.front());
    received.messages.pop_front();
    return m;
  }
};

std::vector<std::byte> trade(int fd, const std::vector<std::byte>& mine) {
  const std::size_t size = mine.size();
  std::size_t other = 0;
  if (write(fd, &size, sizeof size) < 0 || write(fd, mine.data(), size) < 0 ||
      recv(fd, &other, sizeof other, MSG_WAITALL) != sizeof other)
    throw std::runtime_error("the other process is gone");
  std::vector<std::byte> theirs(other);
  if (recv(fd, theirs.data(), other, MSG_WAITALL) != static_cast<ssize_t>(other))
    throw std::runtime_error("the other process is gone");
  return theirs;
}

std::vector<outgoing_payload> payload_of(const std::shared_ptr<std::byte>& bytes,
                                         std::size_t size) {
  std::vector<outgoing_payload> payloads;
  if (size > 0) payloads.push_back({bytes.get(), size, {}, bytes});
  return payloads;
}

// The first byte of an envelope: 'e' is sent back, 'b' is counted and every 16th answered.
void serve(node& n) {
  std::size_t counted = 0;
  while (true) {
    auto m = n.next();
    const char what = static_cast<char>(m.envelope.data()[0]);
    if (what == 'q') return;
    if (what == 'b') {
      if (++counted % 16 == 0) n.net->send(0, 0, frame(m.envelope.bytes()));
      continue;
    }
    std::vector<outgoing_payload> back;
    for (auto& p : m.payloads) back.push_back({p.data.get(), p.size, {}, p.data});
    n.net->send(0, 0, std::move(m.envelope), std::move(back));
  }
}

frame envelope(char what, std::size_t size) {
  frame f(size);
  std::memset(f.data(), what, size);
  f.resize(size);
  return f;
}

void round_trips(node& n, std::size_t size, int count) {
  const auto bytes = n.memory.allocate(std::max<std::size_t>(size, 1), {});
  std::vector<double> times;
  const double end = now() + longest;
  for (int i = -count / 10; i < count && now() < end; ++i) {
    const double start = now();
    n.net->send(1, 0, envelope('e', 40), payload_of(bytes, size));
    n.next();
    if (i >= 0 || i == -count / 10) times.push_back(now() - start);
  }
  std::sort(times.begin(), times.end());
  std::printf("round trip %10zu B  p50 %10.2f us  p99 %10.2f us\n", size, times[times.size() / 2],
              times[times.size() * 99 / 100]);
}

void bandwidth(node& n, std::size_t size, int count) {
  const auto bytes = n.memory.allocate(size, {});
  const auto batch = [&] {
    for (int i = 0; i < 16; ++i) {
      n.net->send(1, 0, envelope('b', 40), payload_of(bytes, size));
      while (!n.net->idle()) n.net->progress();
    }
    n.next();
  };
  batch();
  std::vector<double> times;
  const double end = now() + longest;
  for (int i = 0; i < (count + 15) / 16 && (i == 0 || now() < end); ++i) {
    const double start = now();
    batch();
    times.push_back((now() - start) / 16);
  }
  std::sort(times.begin(), times.end());
  const double t = times[times.size() / 2];
  std::printf("one way    %10zu B  p50 %10.2f us  %10.0f MB/s\n", size, t,
              static_cast<double>(size) / t);
}

// A thousand under way at most; the other side answers every 16th.
void rate(node& n) {
  constexpr int count = 480'000;
  constexpr int window = 960;
  int answered = 0;
  const auto play = [&](int messages) {
    const int end = answered + messages;
    for (int sent = answered; answered < end;) {
      while (sent < end && sent - answered < window) {
        n.net->send(1, 0, envelope('b', 24));
        ++sent;
      }
      n.next();
      answered += 16;
    }
  };
  play(window);
  const double start = now();
  play(count);
  std::printf("rate of small messages  %10.2f M/s\n", count / (now() - start));
}

void pin(unsigned core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core % static_cast<unsigned>(sysconf(_SC_NPROCESSORS_ONLN)), &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Latency and bandwidth of the UCX transport between two processes"};
  std::string kind = "automatic";
  std::string bulk = "automatic";
  std::vector<std::string> settings;
  std::vector<std::size_t> sizes{0,     64,      1024,    4096,    8192,    16384,
                                 65536, 1 << 18, 1 << 20, 4 << 20, 64 << 20};
  ucx_options options;
  options.one_host = true;
  options.host_peers = 1;
  bool unpinned = false;
  app.add_option("--kind", kind)->check(CLI::IsMember({"automatic", "shared_memory", "tcp"}));
  app.add_option("--bulk", bulk)->check(CLI::IsMember({"automatic", "copies", "cma"}));
  app.add_option("--threshold", options.rendezvous_threshold, "bytes from which on to rendezvous");
  app.add_option("--copy-limit", options.copy_limit, "bytes up to which shared memory is used");
  app.add_option("--sizes", sizes, "payloads in bytes")->delimiter(',');
  app.add_option("--set", settings, "settings of UCX, NAME=VALUE");
  app.add_flag("--unpinned", unpinned, "do not pin the processes to a core each");
  CLI11_PARSE(app, argc, argv);
  if (kind == "shared_memory") options.kind = ucx_kind::shared_memory;
  if (kind == "tcp") options.kind = ucx_kind::tcp;
  options.trusted_network = kind == "tcp";
  if (bulk == "copies") options.bulk = ucx_bulk::copies;
  if (bulk == "cma") options.bulk = ucx_bulk::cma;
  for (const auto& s : settings) {
    const auto at = s.find('=');
    options.settings.emplace_back(s.substr(0, at), at == s.npos ? "" : s.substr(at + 1));
  }

  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  const pid_t child = fork();  // before UCX starts
  options.rank = child == 0 ? 1 : 0;
  if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!unpinned) pin(options.rank);
  node n;
  n.net = make_ucx_transport(options, n.received, n.memory);
  n.net->add_peer(1 - options.rank, trade(ends[options.rank], n.net->address()));
  if (child == 0) {
    serve(n);
    return 0;
  }
  const auto print_lanes = [&] {
    for (const auto& r : n.net->routes())
      std::printf("lanes: %s (%s)\n", r.lanes.c_str(), r.reason.c_str());
  };
  print_lanes();
  for (const std::size_t size : sizes)
    round_trips(n, size, size <= 8192 ? 50'000 : size <= 65536 ? 5000 : size <= 4 << 20 ? 300 : 20);
  for (const std::size_t size : sizes)
    if (size >= 65536) bandwidth(n, size, size <= 4 << 20 ? 640 : 32);
  rate(n);
  print_lanes();  // what was learnt about them
  n.net->send(1, 0, envelope('q', 8));
  waitpid(child, nullptr, 0);
  return 0;
}
