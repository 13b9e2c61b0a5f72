#pragma once

#include <atomic>
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

/// The mailbox of a join service: a list in the rendezvous' store that only grows, "join/1",
/// "join/2" and so on, so that one thread can read it by waiting for one key. An entry is added by
/// one compare_set: a joiner that dies leaves no gap. Nothing follows a `closed` entry.
class join_mailbox {
public:
  explicit join_mailbox(std::shared_ptr<store> keys) : keys_(std::move(keys)) {}

  /// Appends an entry. False if the mailbox is closed. The service must have opened it.
  bool post(const join_message& entry);

  /// Service: the mailbox is open, and entry `number` comes next, counted from 1.
  void expect(std::uint64_t number);

  /// Service: the entry, if it comes within the time.
  std::optional<store::bytes> read(std::uint64_t number, std::chrono::milliseconds limit);

  /// Joiner: waits until there is a service; false if there is none within the time. Throws
  /// store_error if the store is lost.
  bool wait_until_open(std::chrono::milliseconds limit);

private:
  std::shared_ptr<store> keys_;
};

/// The keys of the two answers.
std::string rank_reply_key(std::uint64_t visit);
std::string result_key(std::uint64_t visit);

/// What a join service asks of its node, on the thread of the service.
class join_handler {
public:
  virtual ~join_handler() = default;

  /// Reserves a rank for a joiner: the one it wants, if that belonged to a member that has left, or
  /// one that was never used. Throws error, whose text goes to the joiner.
  virtual std::uint32_t reserve_rank(std::optional<std::uint32_t> wanted) = 0;

  /// Admits the joiner. `then` gets the answer, on any thread; it is not called if the node ends
  /// before.
  virtual void let_in(std::uint32_t rank, const std::string& name, store::bytes&& address,
                      std::function<void(join_reply&&)> then) = 0;
};

/// Answers joiners, one after the other, on a thread of rank 0.
class join_service {
public:
  /// `keys` are the rendezvous' own. `handler` must outlive the service.
  join_service(std::shared_ptr<store> keys, std::string job, join_handler& handler);

  /// Refuses the joiners that still wait, since the job is over, and joins the thread.
  ~join_service();

  join_service(const join_service&) = delete;
  join_service& operator=(const join_service&) = delete;

private:
  struct joiner {
    std::string name;
    std::uint32_t rank = 0;
    std::chrono::steady_clock::time_point deadline;
  };

  void run(const std::stop_token& stop);
  void handle(join_message&& entry, const std::stop_token& stop);
  void handle_request(const join_message& request);
  std::optional<join_reply> let_in(const joiner& who, store::bytes&& address,
                                   const std::stop_token& stop);
  join_reply over() const;

  const std::shared_ptr<store> keys_;
  const std::string job_;
  join_handler& handler_;
  join_mailbox mailbox_;
  std::map<std::uint64_t, joiner> joiners_;   // that have a rank and have sent no address, by visit
  std::atomic<bool> cannot_be_woken_{false};  // by the destructor: the thread finds out in time
  std::jthread thread_;
};

}  // namespace troupe::transport
