#pragma once

#include <chrono>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "troupe/actors/cluster/worker_info.hpp"
#include "troupe/actors/future/wait_all.hpp"
#include "troupe/actors/messaging/call_options.hpp"
#include "troupe/actors/rref/function_calls.hpp"
#include "troupe/messages/base/function_ref.hpp"

// Barriers and gatherings of nodes by calls: node::barrier, node::all_gather. As in
// torch.distributed.rpc the node of the smallest name leads; the others call it, and its answer is
// what all have given.
namespace troupe::detail {

/// What a node says to the leader besides its object. Equal operations of a node and a set of names
/// are numbered, so that several threads may be in them at once.
struct gather_request {
  std::string operation;             ///< as errors name it
  std::vector<std::string> names{};  ///< sorted; the first leads
  std::uint64_t sequence = 0;
  std::int64_t limit_ms = 0;  ///< 0: none
};
TROUPE_MESSAGE_EXTERN(gather_request, operation, names, sequence, limit_ms)

/// What has come to a leader.
class gathering {
public:
  virtual ~gathering() = default;
  virtual void complete() = 0;
  virtual void fail(std::exception_ptr why) = 0;
};

/// A node has come, the one whose call the calling thread serves. `make`: if it is the first;
/// `add`: its object, false if that is of another type than the others'. Throws what has ended it
/// before, and rpc_timeout, peer_lost, type_mismatch, not_initialized.
void join_gathering(const gather_request& request,
                    function_ref<std::shared_ptr<gathering>(std::shared_ptr<engine>)> make,
                    function_ref<bool(gathering& all, const std::string& name)> add);

template <class T>
class gathering_of final : public gathering {
public:
  using objects = std::map<std::string, T>;

  explicit gathering_of(std::shared_ptr<engine> driver) : answer_(std::move(driver)) {}

  /// The call that the leader serves; ready when all have come.
  static future<objects> join(const gather_request& request, const T& object) {
    future<objects> answer;
    join_gathering(
        request,
        [](std::shared_ptr<engine> driver) -> std::shared_ptr<gathering> {
          return std::make_shared<gathering_of>(std::move(driver));
        },
        [&](gathering& all, const std::string& name) {
          auto* const mine = dynamic_cast<gathering_of*>(&all);
          if (!mine) return false;
          mine->objects_.emplace(name, object);
          answer = mine->answer_.get_future();
          return true;
        });
    return answer;
  }

  void complete() override { answer_.set_value(std::move(objects_)); }
  void fail(std::exception_ptr why) override { answer_.set_exception(std::move(why)); }

private:
  objects objects_;
  promise<objects> answer_;
};

/// A call of the leader.
struct gather_call {
  gather_request request;
  worker_info leader;
  call_options how;
};

/// The next operation of this kind among `names`; without any, among all members. Throws
/// invalid_argument, unknown_worker, not_initialized.
gather_call next_gathering(rpc_agent& agent, std::string_view operation,
                           const std::vector<std::string>& names,
                           const std::optional<timeout>& limit);

/// What all of `names` have given, by name.
template <class T>
std::map<std::string, T> gather_among(rpc_agent& agent, std::string_view operation,
                                      const std::vector<std::string>& names, const T& object,
                                      const std::optional<timeout>& limit) {
  const auto call = next_gathering(agent, operation, names, limit);
  return awaited_later(
             begin_call<&gathering_of<T>::join>(agent, call.leader, call.request, object, call.how),
             true)
      .get();
}

}  // namespace troupe::detail
