#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "troupe/transport/rendezvous/join_protocol.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// Where newcomers to a running job leave what they have to say: a list in the rendezvous' store
/// that only grows, "door/1", "door/2" and so on, so that one thread can read it by waiting for one
/// key. An entry is made by one compare_set: who dies leaves no gap. Nothing follows a `closed`
/// one.
class letter_box {
public:
  explicit letter_box(std::shared_ptr<store> keys) : keys_(std::move(keys)) {}

  /// Appends. False if the box is closed. The keeper must have opened it.
  bool post(const door_entry& entry);

  /// Keeper: from now on there is one; what comes next is the entry `number`, counted from 1.
  void expect(std::uint64_t number);

  /// Keeper: the entry, if it is there within the time.
  std::optional<store::bytes> read(std::uint64_t number, std::chrono::milliseconds limit);

  /// Newcomer: is there a keeper within the time? Throws store_error if the store is lost.
  bool wait_until_open(std::chrono::milliseconds limit);

private:
  std::shared_ptr<store> keys_;
};

/// Where the answers lie.
std::string place_key(std::uint64_t visit);
std::string verdict_key(std::uint64_t visit);

/// What the keeper of a door asks of its node, on the keeper's thread.
class door_client {
public:
  virtual ~door_client() = default;

  /// The rank for a newcomer, given to nobody else: that of a member who has gone, if it wants
  /// that, or one that nobody has had. Throws error: the newcomer hears its text.
  virtual std::uint32_t reserve_rank(std::optional<std::uint32_t> wanted) = 0;

  /// Lets it in. `then` gets the answer, on any thread; it never does if the node ends before.
  virtual void let_in(std::uint32_t rank, const std::string& name, store::bytes&& address,
                      std::function<void(door_answer&&)> then) = 0;
};

/// The thread on rank 0 that answers newcomers, one after the other.
class door_keeper {
public:
  /// `keys` are the rendezvous' own. `client` must outlive the keeper.
  door_keeper(std::shared_ptr<store> keys, std::string job, door_client& client);

  /// Tells those who still wait that the job is over, and waits for the thread.
  ~door_keeper();

  door_keeper(const door_keeper&) = delete;
  door_keeper& operator=(const door_keeper&) = delete;

private:
  struct guest {
    std::string name;
    std::uint32_t rank = 0;
    std::chrono::steady_clock::time_point deadline;
  };

  void run(const std::stop_token& stop);
  void handle(door_entry&& entry, const std::stop_token& stop);
  void take_wish(const door_entry& wish);
  std::optional<door_answer> let_in(const guest& who, store::bytes&& address,
                                    const std::stop_token& stop);
  door_answer over() const;

  const std::shared_ptr<store> keys_;
  const std::string job_;
  door_client& client_;
  letter_box box_;
  std::map<std::uint64_t, guest> guests_;  // with a rank and no address, by visit
  std::jthread thread_;
};

}  // namespace troupe::transport
