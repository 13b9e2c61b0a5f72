#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "troupe/actors/parameters/pull_messages.hpp"
#include "troupe/actors/rref/rref.hpp"
#include "troupe/actors/tensors/asking_node.hpp"

namespace troupe {

/// What to pull from a parameter_set.
struct pull_options {
  /// A version of more than this: waits until one is committed.
  std::uint64_t newer_than = 0;
  bool wait = true;                  ///< otherwise nothing comes if there is none yet
  std::vector<std::string> names{};  ///< of tensors; empty: all
  /// Of each tensor of one dimension and more, the rows of one of `shards` parts, as by
  /// torch::chunk: the first parts have one row more, if need be; the last may have none.
  std::uint32_t shard = 0;
  std::uint32_t shards = 1;
  /// Of the whole pull; negative: the node's own, 0: none.
  std::chrono::milliseconds limit{-1};
};

/// What was pulled.
struct pulled_parameters {
  std::uint64_t version = 0;
  std::vector<std::pair<std::string, at::Tensor>> tensors{};  ///< in the set's order

  /// Empty where there was no newer version, and the pull did not wait.
  explicit operator bool() const noexcept { return !tensors.empty(); }
};

struct parameter_set_counts {
  std::uint64_t version = 0;  ///< the last that was committed
  std::uint64_t pulls = 0;    ///< answered
  std::size_t waiting = 0;    ///< pulls that wait for a version
  std::uint64_t copies = 0;   ///< writes that had to copy a tensor, since readers might read it
  std::uint64_t copied_bytes = 0;  ///< that they copied
};

/// A named set of tensors that one node updates and others read, whole or in shards: the weights of
/// a trainer, say. Its owner makes an `rref<parameter_set>` of it, by
/// `node.make_rref(std::in_place_type<parameter_set>, tensors)`, and sends that; readers `pull`.
///
/// The tensors are the owner's own, which it goes on using. Readers get them as they were at the
/// last `commit`, all of one version, also while the owner writes to them: it writes to a copy
/// then, once for each tensor and version. Nodes of the same host that lend each other tensors read
/// the owner's memory; for them a pull copies nothing, whatever the size.
///
/// A write after a commit gives a tensor other memory: pointers into it from before (accessors,
/// at::from_blob aliases) are not the tensor's any more.
///
/// `commit`, and writes to the tensors, one thread at a time; all else on any thread.
class parameter_set {
public:
  using named_tensors = std::vector<std::pair<std::string, at::Tensor>>;

  /// Version 1 is what the tensors are now. `readers_wait`: between `begin_update` and `commit`
  /// pulls wait for the commit, or get nothing, instead of the version before; then a write copies
  /// only what a reader still has. Throws invalid_argument: a name twice.
  explicit parameter_set(named_tensors tensors, bool readers_wait = false);
  /// Of a module's named_parameters().
  template <class Named>
  requires requires(const Named& all) {
    all.begin()->key();
    all.begin()->value();
  }
  explicit parameter_set(const Named& all, bool readers_wait = false)
      : parameter_set(list(all), readers_wait) {}
  parameter_set(const parameter_set&) = delete;
  parameter_set& operator=(const parameter_set&) = delete;

  /// Needed only for `readers_wait`: writes may follow until `commit`.
  void begin_update();

  /// The tensors as they are now become the next version, which it returns; pulls that wait for it
  /// are answered.
  std::uint64_t commit();

  parameter_set_counts counts() const;

  /// For `pull`: what the reader asks for, now or when there is such a version. What continues the
  /// future runs on a thread of `driver`, or, if that is null, on the one that commits. Throws
  /// invalid_argument: an unknown name, or no such shard.
  future<detail::pull_answer> serve(const detail::pull_request& request,
                                    const detail::asking_node& reader,
                                    std::shared_ptr<engine> driver);

private:
  struct waiting_pull {
    detail::pull_request request;
    std::vector<std::size_t> places;  // of the tensors that it asks for
    detail::asking_node reader;
    promise<detail::pull_answer> answer;
  };

  template <class Named>
  static named_tensors list(const Named& all) {
    named_tensors out;
    for (const auto& one : all) out.emplace_back(one.key(), one.value());
    return out;
  }
  std::vector<at::Tensor> publish();
  std::vector<std::size_t> places_of(const std::vector<std::string>& names) const;
  detail::pull_answer answer(const detail::pull_request& request,
                             const std::vector<std::size_t>& places,
                             const detail::asking_node& reader) const;

  const named_tensors live_;
  const bool readers_wait_;
  mutable std::mutex mutex_;
  std::vector<at::Tensor> published_;    // as `live_` was at the last commit; empty: readers wait
  std::vector<const void*> written_to_;  // the memory of `live_` then
  parameter_set_counts counts_;
  std::vector<waiting_pull> waiting_;
};

/// Reads the tensors of a set, all of one version: on the set's host where they lie, elsewhere by
/// one message. They are this node's to keep and to write to, and have no gradients; a write to one
/// that lies in the owner's memory copies it first. The owner gets its own, snapshots of them;
/// there `pull_async` has no limit. Throws like a call, and invalid_argument: an unknown name, or
/// no such shard.
pulled_parameters pull(const rref<parameter_set>& from, const pull_options& what = {});
future<pulled_parameters> pull_async(const rref<parameter_set>& from,
                                     const pull_options& what = {});

}  // namespace troupe
