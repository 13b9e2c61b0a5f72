#pragma once

#include <string>
#include <troupe/troupe.hpp>
#include <vector>

#include "troupe/apps/common/status_line.hpp"
#include "troupe/apps/parameter_server/options.hpp"

namespace parameter_server {

/// The result of a run.
struct training_record {
  std::uint64_t seed = 0;
  std::size_t trainers = 0;  ///< 0: without a server
  std::int64_t steps = 0;
  double seconds = 0;   ///< of the training alone
  double accuracy = 0;  ///< the share of the test digits that are taken for what they are
  std::int64_t tested = 0;
  std::vector<std::string> failures{};  ///< the trainers that did not finish, and why
};

/// Trains on all other nodes with the parameters of this one, and shows the progress in `line`.
/// Throws troupe::invalid_argument if there is no other node or the digits cannot be read, and
/// troupe::peer_lost if no trainer has finished.
training_record train_on_ranks(const troupe::node& node, const options& opts,
                               common::status_line& line);

/// The same in this process, by one trainer without a server.
training_record train_here(const options& opts, common::status_line& line);

/// "98.1 % of 360 test digits, 4.2 s"
std::string verdict(const training_record& record);

/// The record's numbers as a JSON object.
std::string to_json(const training_record& record);

}  // namespace parameter_server
