#include "troupe/apps/run/job.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "troupe/messages/base/error.hpp"
#include "troupe/transport/auth/job_secret.hpp"
#include "troupe/transport/rendezvous/environment.hpp"

namespace troupe::launcher {

namespace {

std::pair<std::string, int> parse_rendezvous(const std::string& url) {
  constexpr std::string_view scheme = "tcp://";
  std::string_view rest = url;
  const auto wrong = [&] {
    return invalid_argument(
        fmt::format("--rdzv {}: must be tcp://host:port, for example tcp://10.0.0.1:29500", url));
  };
  if (!rest.starts_with(scheme)) throw wrong();
  rest.remove_prefix(scheme.size());
  const auto colon = rest.rfind(':');
  if (colon == std::string_view::npos || colon == 0) throw wrong();
  std::string_view host = rest.substr(0, colon);
  const std::string_view digits = rest.substr(colon + 1);
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  int port = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (host.empty() || error != std::errc() || end != digits.data() + digits.size() || port < 1 ||
      port > 65535)
    throw wrong();
  return {std::string(host), port};
}

/// A port that nobody listens on now. It is free again when this returns, for rank 0 to take.
int free_port() {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  const bool bound = fd >= 0 && bind(fd, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                     getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0;
  const int error = errno;
  if (fd >= 0) close(fd);
  if (!bound)
    throw transport_error(fmt::format("no free port on 127.0.0.1: {}", std::strerror(error)));
  return ntohs(address.sin_port);
}

/// What ranks would take; nothing when none is set.
std::optional<transport::job_secret> environment_secret() {
  try {
    auto given = transport::read_job_secret(transport::process_environment());
    return given ? std::optional(given->secret) : std::nullopt;
  } catch (const rendezvous_error& wrong) {
    throw invalid_argument(wrong.fault().text);
  }
}

transport::job_secret choose_secret(const run_options& options) {
  if (!options.secret_file.empty()) return transport::job_secret::from_file(options.secret_file);
  const auto given = environment_secret();
  // A job on this machine alone never shares a secret with the job that may have started it.
  if (options.nodes == 1) return transport::job_secret();
  if (given) return *given;
  throw invalid_argument(
      "a job of several machines needs one secret on all of them: put 64 hexadecimal digits "
      "(openssl rand -hex 32) into TROUPE_JOB_SECRET, or into a file that only you can read, for "
      "--secret-file or TROUPE_JOB_SECRET_FILE");
}

/// The same on every machine of the job, without asking them.
std::string derived_id(const transport::job_secret& secret, const std::string& host, int port) {
  const std::string text = fmt::format("job id {}:{}", host, port);
  const auto mac = secret.sign(std::as_bytes(std::span(text)));
  std::string id;
  for (int i = 0; i < 8; ++i) id += fmt::format("{:02x}", static_cast<unsigned>(mac[i]));
  return id;
}

}  // namespace

job make_job(const run_options& options) {
  job made;
  if (options.rendezvous.empty()) {
    made.host = "127.0.0.1";
    made.port = free_port();
  } else {
    std::tie(made.host, made.port) = parse_rendezvous(options.rendezvous);
  }
  const transport::job_secret secret = choose_secret(options);
  made.secret = secret.hex();
  made.id = options.job_id.empty() ? derived_id(secret, made.host, made.port) : options.job_id;
  made.threads = options.threads.value_or(std::max(1, usable_cores() / options.ranks));
  return made;
}

// Large tensors on huge pages: the kernel copies them to another rank at up to twice the speed. But
// it clears them whenever they are new, and libc gives back what is freed at the end of its memory:
// a copy of 4 MB, made anew each time, takes 1.6 ms then, and 0.12 ms where libc keeps it. From 32
// MiB on libc maps each by itself: holes of that size would rarely fit again (and glibc before 2.35
// takes no higher threshold).
constexpr std::pair<const char*, const char*> memory_settings[] = {
    {"THP_MEM_ALLOC_ENABLE", "1"},
    {"MALLOC_MMAP_THRESHOLD_", "33554432"},
    {"MALLOC_TRIM_THRESHOLD_", "268435456"},
    {"MALLOC_TOP_PAD_", "16777216"}};

std::vector<std::string> rank_environment(const run_options& options, const job& job,
                                          int local_rank, int threads) {
  std::vector<std::pair<std::string, std::string>> ours = {
      {"RANK", std::to_string(options.node_rank * options.ranks + local_rank)},
      {"WORLD_SIZE", std::to_string(options.nodes * options.ranks)},
      {"LOCAL_RANK", std::to_string(local_rank)},
      {"LOCAL_WORLD_SIZE", std::to_string(options.ranks)},
      {"MASTER_ADDR", job.host},
      {"MASTER_PORT", std::to_string(job.port)},
      {"TROUPE_JOB_ID", job.id},
      {"TROUPE_JOB_SECRET", job.secret}};
  for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"})
    if (options.threads || std::getenv(name) == nullptr)
      ours.emplace_back(name, std::to_string(threads));
  if (options.keeps_memory)
    for (const auto& [name, value] : memory_settings)
      if (std::getenv(name) == nullptr) ours.emplace_back(name, value);

  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const bool replaced = std::any_of(ours.begin(), ours.end(), [&](const auto& variable) {
      return text.starts_with(variable.first) &&
             text.substr(variable.first.size()).starts_with('=');
    });
    if (!replaced) all.emplace_back(text);
  }
  for (const auto& [name, value] : ours) all.push_back(fmt::format("{}={}", name, value));
  return all;
}

int usable_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace troupe::launcher
