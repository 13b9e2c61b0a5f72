#pragma once

#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iterator>
#include <map>
#include <optional>
#include <thread>
#include <vector>

#include "tests/transport/store/store_fixture.hpp"
#include "troupe/messages/base/error.hpp"
#include "troupe/transport/rendezvous/rendezvous.hpp"

namespace troupe::transport::test {

/// An environment that has only what it is given.
inline environment variables(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

inline std::vector<std::byte> address_by_rank(const pre_roster& r) {
  return to_bytes("address of " + std::to_string(r.rank));
}

/// Has the rank announced itself in the file at `path` where a job meets?
inline bool has_announced(const std::filesystem::path& path, std::uint32_t rank) {
  std::ifstream file(path);
  const std::string all(std::istreambuf_iterator<char>(file), {});
  return all.find("announcement/" + std::to_string(rank)) != all.npos;
}

/// How a rank's call ended.
struct outcome {
  std::optional<roster> joined;
  std::string error;        ///< the text, with `type` rendezvous_error unless noted otherwise
  std::string other_error;  ///< something else was thrown
  std::chrono::milliseconds took{0};
};

inline outcome try_rendezvous(const std::function<roster()>& call) {
  outcome out;
  const auto start = std::chrono::steady_clock::now();
  try {
    out.joined = call();
  } catch (const rendezvous_error& e) {
    out.error = e.what();
  } catch (const std::exception& e) {
    out.other_error = e.what();
  }
  out.took = std::chrono::duration_cast<std::chrono::milliseconds>(
      std::chrono::steady_clock::now() - start);
  return out;
}

/// Ranks as threads of this process, which meet in one way.
class crowd {
public:
  explicit crowd(std::uint32_t world_size) : world_size_(world_size) {}

  /// What rank `rank` would ask for; rank 0 chooses a port that the others wait for.
  rendezvous_options options(std::uint32_t rank) {
    rendezvous_options out;
    out.rank = rank;
    out.world_size = world_size_;
    out.timeout = wait_limit;
    out.variables = variables({{"TROUPE_JOB_SECRET", secret.hex()}});
    out.init_method = method.empty() ? "tcp://127.0.0.1:0" : method;
    if (rank == 0) out.on_listening = [this](std::uint16_t port) { port_.set_value(port); };
    return out;
  }

  /// Starts a rank. `change` may change its options.
  void start(std::uint32_t rank, const std::function<void(rendezvous_options&)>& change = {},
             address_function address = address_by_rank) {
    auto o = options(rank);
    if (change) change(o);
    running_.push_back(std::async(std::launch::async, [this, o, address]() mutable {
      if (method.empty() && o.rank != 0u) {
        const auto port = port_future_.get();
        o.init_method = "tcp://127.0.0.1:" + std::to_string(port);
      }
      return try_rendezvous([&] { return rendezvous(o, address); });
    }));
  }

  /// In the order in which they were started.
  std::vector<outcome> finish() {
    std::vector<outcome> out;
    for (auto& r : running_) out.push_back(r.get());
    running_.clear();
    return out;
  }

  std::uint16_t port() { return port_future_.get(); }

  job_secret secret;
  std::string method;  ///< empty: a port that rank 0 chooses

private:
  std::uint32_t world_size_;
  std::promise<std::uint16_t> port_;
  std::shared_future<std::uint16_t> port_future_ = port_.get_future().share();
  std::vector<std::future<outcome>> running_;
};

/// Closes all rosters at once, as ranks would.
inline void close_all(std::vector<outcome>& outcomes) {
  std::vector<std::thread> threads;
  for (auto& o : outcomes)
    if (o.joined) threads.emplace_back([&o] { o.joined->close(); });
  for (auto& t : threads) t.join();
}

}  // namespace troupe::transport::test
