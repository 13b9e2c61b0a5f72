#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <condition_variable>
#include <filesystem>
#include <functional>
#include <future>
#include <mutex>
#include <string>
#include <thread>
#include <troupe/troupe.hpp>
#include <vector>

namespace troupe::test {

using namespace std::chrono_literals;

/// Longer than anything takes that works, on a machine that has much else to do as well, so that a
/// test which waits for ever fails instead; CTest gives it 300 s.
inline constexpr auto time_limit = 100s;

/// True as soon as `condition` holds; false when it does not in time.
inline bool eventually(const std::function<bool()>& condition) {
  const auto deadline = clock::now() + time_limit;
  while (!condition()) {
    if (clock::now() > deadline) return condition();
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// What carries the messages of a job in this process.
enum class network { loopback, ucx, tcp };

class temporary_folder {
public:
  temporary_folder() {
    auto path = (std::filesystem::temp_directory_path() / "troupe-actors-XXXXXX").string();
    if (!mkdtemp(path.data())) throw std::runtime_error("no temporary folder");
    path_ = path;
  }
  ~temporary_folder() { std::filesystem::remove_all(path_); }
  temporary_folder(const temporary_folder&) = delete;
  temporary_folder& operator=(const temporary_folder&) = delete;

  const std::filesystem::path& path() const { return path_; }

private:
  std::filesystem::path path_;
};

/// The nodes of one job, by rank, all in this process.
inline std::vector<node> make_nodes(network kind, const std::vector<std::string>& names,
                                    rpc_options options = {}) {
  if (kind == network::loopback) return local_nodes(names, options);
  if (kind == network::tcp) options.transport = backend::tcp;
  const temporary_folder folder;
  options.init_method = "file://" + (folder.path() / "meet").string();
  options.world_size = static_cast<std::uint32_t>(names.size());
  std::vector<std::future<node>> joining;
  for (std::uint32_t rank = 0; rank < names.size(); ++rank) {
    options.rank = rank;
    options.name = names[rank];
    joining.push_back(std::async(std::launch::async, [options] { return init_rpc(options); }));
  }
  std::vector<node> nodes;
  for (auto& one : joining) nodes.push_back(one.get());
  return nodes;
}

/// Runs `f` of each, all at once, and waits for all; throws what the first of them threw.
template <class Range, class F>
void all_at_once(Range& range, F f) {
  std::vector<std::future<void>> running;
  for (auto& one : range) running.push_back(std::async(std::launch::async, [&f, &one] { f(one); }));
  for (auto& one : running) one.get();
}

inline void shut_down(std::vector<node>& nodes) {
  all_at_once(nodes, [](node& n) { n.shutdown(true, time_limit); });
}

/// A test that runs on every network.
class on_networks : public testing::TestWithParam<network> {
protected:
  std::vector<node> start(const std::vector<std::string>& names, const rpc_options& options = {}) {
    return make_nodes(GetParam(), names, options);
  }
};

inline std::string name_of(network one) {
  return one == network::loopback ? "loopback" : one == network::ucx ? "ucx" : "tcp";
}

inline std::string network_name(const testing::TestParamInfo<network>& info) {
  return name_of(info.param);
}

inline auto all_networks() {
  return testing::Values(network::loopback, network::ucx, network::tcp);
}

#define TROUPE_ON_NETWORKS(suite)                                           \
  INSTANTIATE_TEST_SUITE_P(networks, suite, ::troupe::test::all_networks(), \
                           ::troupe::test::network_name)

/// Keeps handlers waiting until it is opened, and counts them.
class door {
public:
  /// Blocks until it is open.
  void pass() {
    std::unique_lock lock(mutex_);
    ++arrived_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return open_; });
  }

  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

  /// Blocks until so many have come; false when they do not in time.
  bool wait_for(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, time_limit, [&] { return arrived_ >= count; });
  }

private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int arrived_ = 0;
  bool open_ = false;
};

/// The door that handlers find by `current`; open at the latest when this goes.
class shared_door {
public:
  shared_door() {
    const std::lock_guard lock(mutex());
    slot() = door_;
  }
  ~shared_door() { door_->open(); }
  shared_door(const shared_door&) = delete;
  shared_door& operator=(const shared_door&) = delete;

  door* operator->() const { return door_.get(); }

  /// A handler may stay at it for longer than the test looks.
  static std::shared_ptr<door> current() {
    const std::lock_guard lock(mutex());
    return slot();
  }

private:
  // Guards the slot: handlers read it while a test opens the next door.
  static std::mutex& mutex() {
    static std::mutex one;
    return one;
  }
  static std::shared_ptr<door>& slot() {
    static std::shared_ptr<door> one;
    return one;
  }

  std::shared_ptr<door> door_ = std::make_shared<door>();
};

/// Calls `f` and returns the error of this class that it throws; fails the test when it does not.
template <class Error, class F>
fault fault_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.fault();
  } catch (const std::exception& e) {
    ADD_FAILURE() << "another exception than expected: " << e.what();
    return {};
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

}  // namespace troupe::test
