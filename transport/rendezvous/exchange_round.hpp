#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "troupe/transport/rendezvous/wire.hpp"
#include "troupe/transport/store/store.hpp"

namespace troupe::transport {

/// One round of an exchange in which each rank gives a value and gets those of all, or all get one
/// error.
///
/// The first rank to propose the outcome, success or failure, decides for all: the verdict is
/// written once, by compare_set. The rank that gives the last value collects them for the others.
class exchange_round {
public:
  struct settings {
    std::shared_ptr<store> place;
    std::uint32_t rank = 0;
    std::uint32_t world_size = 0;
    std::chrono::steady_clock::time_point deadline;
    std::chrono::milliseconds timeout{0};  ///< for the error's text
    std::function<std::string()>
        refusals;  ///< the connections that the store refused; may be empty
  };

  /// `failing` completes "ranks 2 and 5 of 8 ... within 10 s", for example "did not come".
  exchange_round(settings s, std::string name, std::string failing);

  /// Gives this rank's value unless one was given for it. Returns the value that counts.
  store::bytes give(const store::bytes& value);

  /// The values of all ranks. Throws rendezvous_error with the verdict's text, or naming the ranks
  /// that are missing when the time is over; store_error if the store is lost.
  std::vector<store::bytes> take();

  /// Makes the round fail for all, if it is still open. Returns whether it failed with this text.
  bool fail(const std::string& text);

private:
  std::string key(std::uint32_t rank) const;
  verdict propose(const verdict& v);
  void collect();
  std::string missing_text();

  settings settings_;
  std::string name_;
  std::string failing_;
};

/// "rank 2 of 8", "ranks 2 and 5 of 8", "ranks 1, 2 and 5 of 8".
std::string name_ranks(std::span<const std::uint32_t> ranks, std::uint32_t world_size);

}  // namespace troupe::transport
