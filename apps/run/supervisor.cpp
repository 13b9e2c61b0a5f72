#include "troupe/apps/run/supervisor.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <optional>

#include "troupe/apps/run/child.hpp"
#include "troupe/apps/run/processes.hpp"
#include "troupe/apps/run/processor_shares.hpp"
#include "troupe/apps/run/status.hpp"
#include "troupe/transport/system/descriptors.hpp"

namespace troupe::launcher {

namespace {

using std::chrono::milliseconds;

constexpr milliseconds linger_time{500};
constexpr milliseconds kill_interval{20};  ///< between looks for processes that have been forked
constexpr milliseconds kill_limit{5000};

/// Descriptors that stay open for each rank, and those that all need together: for the rank that is
/// being started, and for looks at processes.
constexpr std::size_t descriptors_of_rank = 2;
constexpr std::size_t other_descriptors = 16;

/// `timeout` and terminals may deliver one signal twice, to the launcher and to its group.
constexpr milliseconds same_signal_time{100};

int watch_children() {
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  return signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
}

std::string counted(std::size_t count, const char* thing, const char* things) {
  return fmt::format("{} {}", count, count == 1 ? thing : things);
}

std::string seconds(milliseconds time) {
  return fmt::format("{:g} s", static_cast<double>(time.count()) / 1000);
}

}  // namespace

supervisor::supervisor(const run_options& options, const job& job, std::string path, int control)
    : options_(options),
      job_(job),
      path_(std::move(path)),
      control_(control),
      child_events_(watch_children()),
      output_(options) {
  std::signal(SIGPIPE, SIG_IGN);
  fcntl(control_, F_SETFL, O_NONBLOCK);
}

supervisor::~supervisor() {
  kill_descendants();
  if (child_events_ >= 0) close(child_events_);
}

int supervisor::run() {
  start_ranks();
  while (!over()) wait_for_events();
  write_rest();
  return exit_code();
}

void supervisor::write_rest() {
  output_.finish();
  const auto told_to_stop = [&] { return interrupted_by_ != 0; };
  if (told_to_stop()) deadline_ = clock::now() + options_.grace;
  while (output_.pending() && stage_ < stage::killing &&
         !(told_to_stop() && clock::now() >= deadline_))
    wait_for_events();
  output_.pump();
}

bool supervisor::over() const { return !children_left_ || stage_ == stage::gave_up; }

void supervisor::start_ranks() {
  // The ranks get what the launcher was given.
  std::optional<rlimit> given(std::in_place);
  if (getrlimit(RLIMIT_NOFILE, &*given) != 0) given.reset();
  transport::raise_descriptor_limit();
  const auto ranks = static_cast<std::size_t>(options_.ranks);
  transport::need_descriptors(descriptors_of_rank * ranks + other_descriptors,
                              "to start " + counted(ranks, "rank", "ranks"));
  std::vector<processor> processors;
  if (options_.pin == pinning::cores) processors = usable_processors();
  for (int local_rank = 0; local_rank < options_.ranks; ++local_rank) {
    std::optional<cpu_set_t> share;
    auto threads = job_.threads;
    if (!processors.empty()) {
      const auto mine = share_of(processors, local_rank, options_.ranks);
      share = set_of(mine);
      if (!options_.threads) threads = static_cast<int>(mine.size());
    }
    const int number = options_.node_rank * options_.ranks + local_rank;
    const child started =
        start_child({path_, options_.command, rank_environment(options_, job_, local_rank, threads),
                     number == 0 ? input_.for_child() : -1, given, share});
    ranks_.push_back({number, started.pid, {}});
    output_.add(number, started.output, started.errors);
  }
  input_.release_child_end();
}

void supervisor::wait_for_events() {
  std::vector<pollfd> waits = {{control_, POLLIN, 0}, {child_events_, POLLIN, 0}};
  output_.add_to(waits);
  input_.add_to(waits);
  poll(waits.data(), waits.size(), poll_timeout());
  if (waits[0].revents != 0) read_control();
  output_.pump();
  input_.pump();
  if (waits[1].revents != 0) reap();
  if (stage_ != stage::running && !over() && clock::now() >= deadline_) deadline_passed();
  if (stage_ == stage::killing) signal_all(SIGKILL);
}

int supervisor::poll_timeout() const {
  if (stage_ == stage::running || (over() && interrupted_by_ == 0)) return -1;
  if (stage_ == stage::killing) return static_cast<int>(kill_interval.count());
  const auto left = std::chrono::ceil<milliseconds>(deadline_ - clock::now());
  return static_cast<int>(std::max<milliseconds::rep>(0, left.count()));
}

void supervisor::read_control() {
  std::array<unsigned char, 16> signals;
  const ssize_t count = read(control_, signals.data(), signals.size());
  for (ssize_t i = 0; i < count; ++i) interrupt(signals[static_cast<std::size_t>(i)]);
  if (count == 0) {
    control_ = -1;
    begin_killing();
  }
}

void supervisor::reap() {
  signalfd_siginfo event;
  while (read(child_events_, &event, sizeof event) > 0) continue;
  std::vector<rank> failed;
  int status = 0;
  pid_t pid = 0;
  while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
    const auto found = std::find_if(ranks_.begin(), ranks_.end(), [&](const rank& each) {
      return each.pid == pid && !each.status;
    });
    if (found == ranks_.end()) continue;  // a process that a rank left behind
    found->status = status;
    if (status != 0) failed.push_back(*found);
  }
  children_left_ = !(pid < 0 && errno == ECHILD);
  if (!failed.empty()) report(failed);
  // A shell's background processes ignore SIGINT: they must get another signal too.
  if (running() == 0 && children_left_ && stage_ <= stage::ending && asked_by_ != SIGTERM &&
      stage_ != stage::lingering)
    enter(stage::lingering, linger_time);
}

void supervisor::report(const std::vector<rank>& failed) {
  if (failure_ == 0) failure_ = exit_code_of(*failed.front().status);
  if (stage_ >= stage::ending) return;  // they end because they were asked to
  for (const rank& each : failed) {
    output_.drain(each.number);
    const bool last = &each == &failed.back();
    output_.say(fmt::format("rank {} (pid {}, {}) {}{}", each.number, each.pid,
                            options_.command.front(), describe_status(*each.status),
                            last && running() > 0 ? fmt::format("; ending the other {}",
                                                                counted(running(), "rank", "ranks"))
                                                  : std::string()));
  }
  ask_to_end(SIGTERM);
}

void supervisor::interrupt(int signal) {
  const auto now = clock::now();
  if (signal == interrupted_by_ && now - last_signal_ < same_signal_time) return;
  last_signal_ = now;
  const bool again = interrupted_by_ != 0 || stage_ >= stage::ending;
  if (interrupted_by_ == 0) interrupted_by_ = signal;
  if (again) {
    output_.say(fmt::format("{} again: killing {}", describe_signal(signal),
                            counted(running(), "rank", "ranks")));
    return begin_killing();
  }
  if (over())
    output_.say(
        fmt::format("{}: waiting {} for the reader of the last output; again to end at once",
                    describe_signal(signal), seconds(options_.grace)));
  else
    output_.say(fmt::format("passing {} on to {}; again to kill at once", describe_signal(signal),
                            counted(running(), "rank", "ranks")));
  ask_to_end(signal);
}

void supervisor::ask_to_end(int signal) {
  asked_by_ = signal;
  signal_all(signal);
  enter(stage::ending, options_.grace);
}

void supervisor::enter(stage next, milliseconds limit) {
  stage_ = next;
  deadline_ = clock::now() + limit;
}

void supervisor::deadline_passed() {
  const std::size_t left = descendants().size();
  switch (stage_) {
    case stage::running:
    case stage::gave_up: break;
    case stage::lingering:
      output_.say(fmt::format("ending {} that the ranks left behind",
                              counted(left, "process", "processes")));
      ask_to_end(SIGTERM);
      break;
    case stage::ending:
      output_.say(fmt::format("killing {} that did not end within {}",
                              counted(left, "process", "processes"), seconds(options_.grace)));
      begin_killing();
      break;
    case stage::killing:
      output_.say(fmt::format("{} cannot be killed", counted(left, "process", "processes")));
      stage_ = stage::gave_up;
      break;
  }
}

void supervisor::begin_killing() {
  if (stage_ >= stage::killing) return;
  enter(stage::killing, kill_limit);
  signal_all(SIGKILL);
}

void supervisor::signal_all(int signal) {
  std::vector<pid_t> groups;
  for (const rank& each : ranks_)
    if (!each.status) groups.push_back(each.pid);
  // Looked up first: a process of a rank's group must not get the signal twice.
  const std::vector<descendant> all = descendants();
  for (pid_t group : groups) kill(-group, signal);
  for (const descendant& process : all)
    if (std::find(groups.begin(), groups.end(), process.group) == groups.end())
      kill(process.pid, signal);
}

std::size_t supervisor::running() const {
  return static_cast<std::size_t>(
      std::count_if(ranks_.begin(), ranks_.end(), [](const rank& each) { return !each.status; }));
}

int supervisor::exit_code() const {
  if (stage_ == stage::gave_up && failure_ == 0) return 1;
  if ((failure_ != 0 || output_.pending()) && interrupted_by_ != 0) return 128 + interrupted_by_;
  return failure_;
}

}  // namespace troupe::launcher
